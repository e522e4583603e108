//! Columnar tables, which are Parquet files and Arrow IPC files (also called Feather).
//!
//! A file is converted to the text of a CSV table with a header, which
//! [`Table`](crate::table::Table) then reads. The same data therefore yields the same data set in
//! all formats, because the content determines the kinds of columns. Missing values become empty
//! fields, and dates and times are written as in ISO 8601. Index columns that pandas stores without
//! a name are skipped. Columns of lists or records are rejected. Reading needs memory for the text
//! and one record batch.
//!
//! These readers require the feature `parquet`. Without it, opening such a file fails with an error
//! that names the remedy.

use std::path::Path;

/// File name extensions of columnar tables, in the order in which files of a folder are looked up.
pub(crate) const ENDINGS: [&str; 5] = ["parquet", "pq", "feather", "arrow", "ipc"];

/// Returns whether a file name has the extension of a columnar table.
pub(crate) fn is_columnar(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
    ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str()))
}

/// Converts a columnar table to CSV text.
///
/// # Errors
/// Returns [`Error::Malformed`](eciton_graph::error::Error::Malformed) if the file is damaged or
/// has columns of lists, or if the feature `parquet` is disabled.
#[cfg(not(feature = "parquet"))]
pub(crate) fn text(path: &Path) -> eciton_graph::error::Result<std::sync::Arc<[u8]>> {
    use eciton_graph::error::{Error, Place};
    let place = Place::whole(crate::file::name(path));
    Err(crate::conversions::error(path)
        .unwrap_or_else(|| Error::malformed(place, "a table as .csv or .tsv", "another format")))
}

#[cfg(feature = "parquet")]
pub(crate) use readers::text;

#[cfg(feature = "parquet")]
mod readers {
    use std::io::{Read, Seek, SeekFrom};
    use std::path::Path;
    use std::sync::Arc;

    use arrow_array::{RecordBatch, RecordBatchReader};
    use arrow_ipc::reader::FileReader;
    use arrow_schema::{ArrowError, DataType, Schema};
    use eciton_graph::error::{Error, Place, Result};
    use eciton_input::budget::Charge;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use parquet::file::metadata::ColumnChunkMetaData;

    use crate::file;

    /// First bytes of every Parquet file.
    const PARQUET: &[u8] = b"PAR1";

    pub(crate) fn text(path: &Path) -> Result<Arc<[u8]>> {
        // The libraries check most sizes of a damaged file, but panic for others.
        std::panic::catch_unwind(|| read(path)).unwrap_or_else(|_| {
            let error = ArrowError::ParseError("sizes that a complete file cannot have".to_owned());
            Err(damaged(&file::name(path), &error))
        })
    }

    fn read(path: &Path) -> Result<Arc<[u8]>> {
        let name = file::name(path);
        let failed = |error: ArrowError| damaged(&name, &error);
        let refused = |source| Error::Read { path: path.to_owned(), source };
        let mut file = eciton_input::file::open(path).map_err(refused)?;
        let mut start = Vec::new();
        file.by_ref().take(PARQUET.len() as u64).read_to_end(&mut start).map_err(refused)?;
        file.rewind().map_err(refused)?;
        match () {
            () if start.starts_with(PARQUET) => {
                let builder =
                    ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| failed(error.into()))?;
                let mut columns = builder.metadata().row_groups().iter().flat_map(|group| group.columns());
                let negative = |column: &ColumnChunkMetaData| {
                    let start = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
                    start < 0 || column.compressed_size() < 0
                };
                if columns.any(negative) {
                    return Err(failed(ArrowError::ParseError("a column of negative size".to_owned())));
                }
                let reader = builder.build().map_err(|error| failed(error.into()))?;
                write(&name, &reader.schema(), reader)
            }
            () => {
                check_sizes(&mut file).map_err(failed)?;
                let reader = FileReader::try_new_buffered(file, None).map_err(failed)?;
                write(&name, &reader.schema(), reader)
            }
        }
    }

    /// Rejects an Arrow file whose compressed buffers claim impossible sizes. The library would
    /// allocate that much memory.
    fn check_sizes(file: &mut std::fs::File) -> std::result::Result<(), ArrowError> {
        let wrong = |what: &str| ArrowError::ParseError(what.to_owned());
        let length = file.metadata()?.len();
        let allowed = crate::gzip::allowed(length);
        let mut part = |from: u64, bytes: u64| {
            let mut part = Vec::new();
            file.seek(SeekFrom::Start(from))?;
            match file.take(bytes.min(length)).read_to_end(&mut part)? as u64 == bytes {
                true => Ok(part),
                false => Err(wrong("a section beyond the end of the file")),
            }
        };
        // The footer, its length and the magic bytes are at the end of the file.
        let end = length.checked_sub(10).ok_or_else(|| wrong("no footer"))?;
        let footer_bytes = i32::from_le_bytes(part(end, 4)?.try_into().unwrap_or_default());
        let start = end.checked_sub(u64::try_from(footer_bytes).unwrap_or(u64::MAX));
        let footer = part(start.ok_or_else(|| wrong("no footer"))?, footer_bytes as u64)?;
        let footer = arrow_ipc::root_as_footer(&footer).map_err(|error| wrong(&error.to_string()))?;
        let blocks = [footer.dictionaries(), footer.recordBatches()];
        for block in blocks.iter().flatten().flatten() {
            let at = u64::try_from(block.offset()).unwrap_or(u64::MAX);
            let head_bytes = u64::try_from(block.metaDataLength()).unwrap_or(u64::MAX);
            let head = part(at, head_bytes)?;
            // A marker and the length of the message precede it. Old files have no marker.
            let from = if head.starts_with(&[0xff; 4]) { 8 } else { 4 };
            let message = arrow_ipc::root_as_message(head.get(from..).unwrap_or_default())
                .map_err(|error| wrong(&error.to_string()))?;
            let batch = message
                .header_as_record_batch()
                .or_else(|| message.header_as_dictionary_batch().and_then(|dictionary| dictionary.data()));
            let Some(batch) = batch.filter(|batch| batch.compression().is_some()) else { continue };
            for buffer in batch.buffers().into_iter().flatten().filter(|buffer| buffer.length() >= 8) {
                let offset = u64::try_from(buffer.offset()).unwrap_or(u64::MAX);
                let from = at.saturating_add(head_bytes).saturating_add(offset);
                let size = i64::from_le_bytes(part(from, 8)?.try_into().unwrap_or_default());
                // -1 marks an uncompressed buffer.
                if size < -1 || size.unsigned_abs() > allowed {
                    return Err(wrong("a buffer whose uncompressed size is impossible for this file"));
                }
            }
        }
        Ok(())
    }

    /// Converts record batches to CSV text.
    fn write(
        name: &str,
        schema: &Schema,
        batches: impl Iterator<Item = std::result::Result<RecordBatch, ArrowError>>,
    ) -> Result<Arc<[u8]>> {
        let mut columns = Vec::new();
        for (at, field) in schema.fields().iter().enumerate() {
            if field.name().starts_with("__index_level_") {
                let column = field.name();
                eciton_input::notes::add(format!(
                    "{name}: column {column} was not read: it is an index that pandas stored without a name"
                ));
            } else if is_nested(field.data_type()) {
                return Err(Error::Malformed {
                    place: Place::whole(name),
                    expected: "one value per row in each column".to_owned(),
                    found: format!("column {:.40} of the type {}", field.name(), field.data_type()),
                    remedy: "write one column for each value, or remove the column",
                });
            } else {
                columns.push(at);
            }
        }
        let failed = |error: ArrowError| damaged(name, &error);
        let (mut text, mut charge) = (Vec::new(), Charge::default());
        let none = RecordBatch::new_empty(Arc::new(schema.clone()));
        let mut first = true;
        for batch in std::iter::once(Ok(none)).chain(batches) {
            let batch = batch.and_then(|batch| batch.project(&columns)).map_err(failed)?;
            arrow_csv::WriterBuilder::new()
                .with_header(std::mem::take(&mut first))
                .build(&mut text)
                .write(&batch)
                .map_err(failed)?;
            charge.grow_to(text.capacity() as u64).map_err(|exceeded| file::exceeded(name, exceeded))?;
        }
        charge.keep();
        Ok(text.into())
    }

    fn is_nested(kind: &DataType) -> bool {
        match kind {
            DataType::Dictionary(_, values) => is_nested(values),
            kind => kind.is_nested(),
        }
    }

    fn damaged(name: &str, error: &ArrowError) -> Error {
        Error::Malformed {
            place: Place::whole(name),
            expected: "a complete Parquet or Arrow file".to_owned(),
            found: eciton_input::text::cut(&error.to_string(), 200),
            remedy: "the file is damaged or of another kind; fetch or write it again",
        }
    }
}
