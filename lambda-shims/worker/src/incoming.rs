//! A frame (binary message) that arrives from an object store or in an event. The header is read
//! before the other parts. One part may still be arriving while the kernel computes on it.

use std::ops::Range;

use bytes::Bytes;
use eciton_tensor::Matrix;
use eciton_tensor::frame::{Decoded, Header, RowSink};
use eciton_transport::Key;

use crate::error::{Error, Result};
use crate::room::Room;
use crate::timed::Timed;

/// Size of the first read of an object, in bytes. It covers the header, and the whole frame if the
/// frame is small.
pub const HEAD_BYTES: u64 = 64 << 10;

/// A frame (binary message) whose bytes have arrived in part or completely.
#[derive(Debug)]
pub(crate) struct Incoming {
    /// Description of the frame, for error messages.
    place: String,
    header: Header,
    /// Ranges of bytes that have arrived, each with its offset in the frame, in ascending order.
    pieces: Vec<(u64, Bytes)>,
    /// Number and rows of the part that is streamed separately, if any.
    arriving: Option<(u32, Matrix)>,
}

impl Incoming {
    /// Creates a frame from all its bytes. `place` describes the frame in error messages, and
    /// `room` limits its memory.
    pub(crate) fn whole(place: &str, bytes: Bytes, room: &Room) -> Result<Self> {
        let header = Header::parse(&bytes).map_err(in_frame(place))?;
        if header.bytes_len != bytes.len() as u64 {
            let source = eciton_tensor::Error::Damaged {
                place: "data".to_owned(),
                reason: format!("{} bytes arrived, but {} were expected", bytes.len(), header.bytes_len),
            };
            return Err(in_frame(place)(source));
        }
        room.take(&header)?;
        Ok(Self { place: place.to_owned(), header, pieces: vec![(0, bytes)], arriving: None })
    }

    /// Reads the header of the frame in the object `key`, with all other bytes of the first read.
    /// `bytes_len` is the expected length of the object, if known.
    pub(crate) async fn open(store: &Timed, key: &Key, bytes_len: Option<u64>, room: &Room) -> Result<Self> {
        let place = format!("object {key}");
        let first = 0..bytes_len.unwrap_or(HEAD_BYTES).min(HEAD_BYTES);
        let mut head = store.get(key, Some(first)).await?;
        let header_len = Header::len_from_prefix(&head).map_err(in_frame(&place))? as u64;
        if header_len > head.len() as u64 {
            let rest = store.get(key, Some(head.len() as u64..header_len)).await?;
            head = join(&[&head, &rest]);
        }
        let header = Header::parse(&head).map_err(in_frame(&place))?;
        if let Some(promised) = bytes_len.filter(|&l| l != header.bytes_len) {
            let reason =
                format!("{promised} bytes were announced, but the header specifies {}", header.bytes_len);
            return Err(Error::Object { key: key.to_string(), reason });
        }
        room.take(&header)?;
        Ok(Self { place, header, pieces: vec![(0, head)], arriving: None })
    }

    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// Reads the remaining bytes except those of the part `apart`. Returns a stream for that part,
    /// which the caller reads with [`Stream::run`] while the kernel may already compute.
    pub(crate) async fn rest(
        &mut self,
        store: &Timed,
        key: &Key,
        apart: Option<u32>,
    ) -> Result<Option<Stream>> {
        let here = self.here();
        let end = self.header.bytes_len;
        let apart = apart.and_then(|p| Some((p, self.header.parts.get(p as usize)?.clone())));
        let apart =
            apart.filter(|(_, part)| part.row_bytes().is_some() && part.offset + part.bytes_len > here);
        let missing = match &apart {
            Some((_, part)) => [here..part.offset, (part.offset + part.bytes_len).max(here)..end],
            None => [here..end, end..end],
        };
        for range in missing.into_iter().filter(|r| r.start < r.end) {
            let bytes = store.get(key, Some(range.clone())).await?;
            if bytes.len() as u64 != range.end - range.start {
                let found = range.start + bytes.len() as u64;
                let reason = format!("it ends after {found} bytes, but the header specifies {end}");
                return Err(Error::Object { key: key.to_string(), reason });
            }
            self.pieces.push((range.start, bytes));
        }
        let Some((number, part)) = apart else { return Ok(None) };
        let (mut sink, arriving) = RowSink::channel(&part).map_err(in_frame(&self.place))?;
        let mut from = part.offset;
        if here > from {
            // The first read is passed to the sink.
            let begun = self.bytes(from..here)?;
            sink.push(&begun).map_err(in_frame(&self.place))?;
            from = here;
        }
        self.arriving = Some((number, Matrix::from(arriving)));
        let range = from..part.offset + part.bytes_len;
        Ok(Some(Stream { place: self.place.clone(), key: key.clone(), range, sink }))
    }

    /// Returns the length of the beginning of the frame that has arrived, in bytes.
    fn here(&self) -> u64 {
        self.pieces.first().map_or(0, |(_, bytes)| bytes.len() as u64)
    }

    /// Returns the bytes in `range`. They are copied only if they span several reads.
    fn bytes(&self, range: Range<u64>) -> Result<Bytes> {
        let mut found: Vec<Bytes> = Vec::new();
        let mut at = range.start;
        for (start, piece) in &self.pieces {
            let end = start + piece.len() as u64;
            if at < range.end && (*start..end).contains(&at) {
                let until = range.end.min(end);
                found.push(piece.slice((at - start) as usize..(until - start) as usize));
                at = until;
            }
        }
        if at < range.end {
            let reason = format!("bytes {at}..{} are missing", range.end);
            return Err(in_frame(&self.place)(eciton_tensor::Error::Damaged {
                place: "data".to_owned(),
                reason,
            }));
        }
        match found.as_slice() {
            [] => Ok(Bytes::new()),
            [one] => Ok(one.clone()),
            several => Ok(join(&several.iter().collect::<Vec<_>>())),
        }
    }

    /// Decodes the part with this number. The rows of the streamed part may still be arriving.
    pub(crate) fn part(&self, number: u32) -> Result<Decoded> {
        if let Some((arriving, matrix)) = &self.arriving
            && *arriving == number
        {
            return Ok(Decoded::Matrix(matrix.clone()));
        }
        let part = self.header.part(number).map_err(in_frame(&self.place))?;
        let bytes = self.bytes(part.offset..part.offset + part.bytes_len)?;
        part.decode(&bytes).map_err(in_frame(&self.place))
    }
}

/// The bytes of one part that are still to be read, and that the kernel processes as they arrive.
#[derive(Debug)]
pub(crate) struct Stream {
    place: String,
    key: Key,
    range: Range<u64>,
    sink: RowSink,
}

impl Stream {
    /// Reads the bytes, and passes them to the kernel as they arrive. If the read fails, the input
    /// of the kernel ends with an error as well.
    pub(crate) async fn run(self, store: &Timed) -> Result<()> {
        let Self { place, key, range, mut sink } = self;
        let mut broken = None;
        let mut push = |piece: Bytes| {
            sink.push(&piece).map_err(|source| {
                broken = Some(in_frame(&place)(source));
                eciton_transport::Error::Refused {
                    key: key.to_string(),
                    reason: "the rows are malformed".to_owned(),
                }
            })
        };
        let read = store.stream(&key, range, &mut push).await;
        match read {
            Ok(()) => sink.finish().map_err(in_frame(&place)),
            Err(e) => {
                let e = broken.unwrap_or(e);
                sink.fail(&e.to_string());
                Err(e)
            }
        }
    }
}

fn join(pieces: &[&Bytes]) -> Bytes {
    let mut all = Vec::with_capacity(pieces.iter().map(|p| p.len()).sum());
    for piece in pieces {
        all.extend_from_slice(piece);
    }
    all.into()
}

/// Returns a function that converts an error of the frame decoder. `place` describes the frame in
/// the new error.
pub(crate) fn in_frame(place: &str) -> impl Fn(eciton_tensor::Error) -> Error {
    move |source| Error::Frame { place: place.to_owned(), source }
}
