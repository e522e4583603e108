//! Reader for the line items of an AWS Cost and Usage Report, which is a CSV file, optionally
//! compressed with gzip.
//!
//! Column names are those of a legacy report (`lineItem/UsageType`) or of CUR 2.0
//! (`line_item_usage_type`). Line items are read one at a time, because the report of a whole
//! account may have gigabytes.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use csv::{ErrorKind, ReaderBuilder, StringRecord};
use eciton_graph::error::{Error, Place, Result};

use crate::gzip::Source;

/// Maximum length of one line item, in bytes.
const MAX_ITEM_BYTES: usize = 1 << 20;
/// Number of bytes that are read from the file at a time.
const BLOCK_BYTES: u64 = 1 << 18;
/// CloudFormation tag that contains the name of the stack, in the form that [`normal`] returns.
const STACK_TAG: &str = "awscloudformationstackname";

/// Line item of a Cost and Usage Report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Item {
    /// Type of the line item, for instance `Usage`, `Credit` or `Tax`. It is `Usage` if the report
    /// has no such column.
    pub kind: String,
    /// AWS usage type, including its region prefix.
    pub usage: String,
    /// AWS operation. It is empty if the report has no such column.
    pub operation: String,
    /// Resource, which is an ARN or the name of a bucket. It is empty if the line item has no
    /// resource.
    pub resource: String,
    /// Used quantity, in [`Self::unit`].
    pub quantity: f64,
    /// Unit of the quantity. It is empty if the report has no such column.
    pub unit: String,
    /// Unblended cost, in [`Self::currency`].
    pub cost: f64,
    /// Currency of the cost. It is `USD` if the report has no such column.
    pub currency: String,
    /// Start and end of the usage, in the form `YYYY-MM-DDTHH:MM:SS`. Both are empty if the report
    /// has no such columns.
    pub interval: [String; 2],
    /// Value of the tag `aws:cloudformation:stack-name`. It is empty if the line item has no such
    /// tag.
    pub stack: String,
}

/// Positions of the relevant columns of a report.
#[derive(Debug, Clone, Copy)]
struct Columns {
    usage: usize,
    quantity: usize,
    cost: usize,
    resource: usize,
    kind: Option<usize>,
    operation: Option<usize>,
    unit: Option<usize>,
    currency: Option<usize>,
    start: Option<usize>,
    end: Option<usize>,
    stack: Option<usize>,
    tags: Option<usize>,
}

/// Normalises a column name for comparisons, to lower case without punctuation.
fn normal(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// Cost and Usage Report that is open for reading.
pub struct Report {
    reader: csv::Reader<Blocks>,
    columns: Columns,
    record: StringRecord,
    path: PathBuf,
    file: String,
}

impl Report {
    /// Opens a report and reads its header.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is not CSV, or lacks a required column. The
    /// message has the name of the file.
    pub fn open(path: &Path) -> Result<Self> {
        let mut source = Source::open(path)?;
        let file = source.file().to_owned();
        let mut first = Vec::new();
        source.read(&mut first, BLOCK_BYTES)?;
        let other = |found: &str, remedy: &'static str| {
            let expected = "a Cost and Usage Report as CSV, plain or packed with gzip".to_owned();
            Error::Malformed { place: Place::whole(&file), expected, found: found.to_owned(), remedy }
        };
        if first.starts_with(b"PAR1") {
            return Err(other("Parquet", "choose text/csv as the format of the report at AWS"));
        }
        if first.starts_with(b"PK\x03\x04") {
            return Err(other("a zip archive", "unpack it, and give the CSV file in it"));
        }
        // Skips a byte order mark.
        let given = if first.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        let blocks = Blocks { source, out: first, given, since: 0 };
        let mut reader = ReaderBuilder::new().has_headers(false).from_reader(blocks);
        let mut record = StringRecord::new();
        let found = reader.read_record(&mut record).map_err(|error| refused(error, path, &file, 1))?;
        if !found {
            return Err(other("an empty file", "download the report again"));
        }
        let names: Vec<String> = record.iter().map(normal).collect();
        let at = |name: &str| names.iter().position(|own| own == name);
        let needed = |name: &str| {
            at(&normal(name)).ok_or_else(|| {
                let shown: Vec<&str> = record.iter().take(8).collect();
                Error::Malformed {
                    place: Place::line(&file, 1),
                    expected: format!("a column {name}"),
                    found: format!("{} columns: {}, ...", record.len(), shown.join(", ")),
                    remedy: if name == "lineItem/ResourceId" {
                        "create the report with resource IDs: without them, the costs of different stacks cannot be separated"
                    } else {
                        "give an AWS Cost and Usage Report with the columns of line items"
                    },
                }
            })
        };
        let columns = Columns {
            usage: needed("lineItem/UsageType")?,
            quantity: needed("lineItem/UsageAmount")?,
            cost: needed("lineItem/UnblendedCost")?,
            resource: needed("lineItem/ResourceId")?,
            kind: at("lineitemlineitemtype"),
            operation: at("lineitemoperation"),
            unit: at("pricingunit"),
            currency: at("lineitemcurrencycode"),
            start: at("lineitemusagestartdate"),
            end: at("lineitemusageenddate"),
            stack: at(&format!("resourcetags{STACK_TAG}")),
            tags: at("resourcetags"),
        };
        Ok(Self { reader, columns, record, path: path.to_owned(), file })
    }

    /// Returns the next line item, or `None` at the end of the report.
    ///
    /// # Errors
    /// Returns an error if the file is damaged. The message has the line, and the column if a
    /// number is invalid.
    pub fn next_item(&mut self) -> Result<Option<Item>> {
        self.reader.get_mut().since = 0;
        let line = self.reader.position().line();
        let found = self.reader.read_record(&mut self.record);
        if !found.map_err(|error| refused(error, &self.path, &self.file, line))? {
            return Ok(None);
        }
        let Columns { usage, quantity, cost, resource, .. } = self.columns;
        let text = |at: usize| self.record.get(at).unwrap_or_default().trim();
        let of = |at: Option<usize>, otherwise: &str| match at.map(text) {
            None | Some("") => otherwise.to_owned(),
            Some(text) => text.to_owned(),
        };
        let number = |at: usize, name: &str| match text(at) {
            "" => Ok(0.0),
            text => text.parse::<f64>().ok().filter(|value| value.is_finite()).ok_or_else(|| {
                let found = eciton_input::text::cut(text, 60);
                Error::malformed(Place::line(&self.file, line), format!("a number in column {name}"), found)
            }),
        };
        Ok(Some(Item {
            kind: of(self.columns.kind, "Usage"),
            usage: text(usage).to_owned(),
            operation: of(self.columns.operation, ""),
            resource: text(resource).to_owned(),
            quantity: number(quantity, "lineItem/UsageAmount")?,
            unit: of(self.columns.unit, ""),
            cost: number(cost, "lineItem/UnblendedCost")?,
            currency: of(self.columns.currency, "USD"),
            interval: [self.columns.start, self.columns.end].map(|at| moment(&of(at, ""))),
            stack: of(self.columns.stack, &self.columns.tags.map_or_else(String::new, |at| stack(text(at)))),
        }))
    }
}

/// Converts a time such as `2026-11-27 17:00:00.000` or `2026-11-27T17:00:00Z` to the form
/// `2026-11-27T17:00:00`.
fn moment(text: &str) -> String {
    text.chars().take(19).map(|c| if c == ' ' { 'T' } else { c }).collect()
}

/// Returns the name of the stack from the tags of a CUR 2.0 line item, which are a JSON object. The
/// name is empty if there is no such tag.
fn stack(tags: &str) -> String {
    let found: std::collections::BTreeMap<String, serde_json::Value> =
        serde_json::from_str(tags).unwrap_or_default();
    let own = found.into_iter().find(|(name, _)| normal(name).ends_with(STACK_TAG));
    own.and_then(|(_, value)| value.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Converts an error of the csv crate to an error with the location in the report.
fn refused(error: csv::Error, path: &Path, file: &str, line: u64) -> Error {
    let line = error.position().map_or(line, csv::Position::line);
    let place = Place::line(file, line);
    match error.into_kind() {
        ErrorKind::Utf8 { .. } => Error::malformed(place, "UTF-8 text", "other bytes"),
        ErrorKind::UnequalLengths { expected_len, len, .. } => Error::Malformed {
            place,
            expected: format!("{expected_len} fields, as in the header"),
            found: format!("{len} fields"),
            remedy: "the report is damaged or incomplete: download it again",
        },
        ErrorKind::Io(error) => match error.downcast::<Error>() {
            Ok(own) => own,
            Err(source) => Error::Read { path: path.to_owned(), source },
        },
        other => Error::malformed(place, "a line item", format!("{other:?}")),
    }
}

/// Byte source for the csv crate that limits the length of a record.
struct Blocks {
    source: Source,
    out: Vec<u8>,
    given: usize,
    /// Number of bytes read since the start of the current record.
    since: usize,
}

impl Read for Blocks {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.given == self.out.len() {
            self.out.clear();
            self.given = 0;
            self.source.read(&mut self.out, BLOCK_BYTES).map_err(io::Error::other)?;
        }
        let rest = self.out.get(self.given..).unwrap_or_default();
        let count = rest.len().min(into.len());
        if let (Some(to), Some(from)) = (into.get_mut(..count), rest.get(..count)) {
            to.copy_from_slice(from);
        }
        self.given += count;
        self.since += count;
        if self.since > MAX_ITEM_BYTES {
            let expected = format!("a line item of at most {MAX_ITEM_BYTES} bytes");
            let found = "a longer line item, or a quote that is never closed";
            let place = Place::whole(self.source.file());
            return Err(io::Error::other(Error::malformed(place, expected, found)));
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::gzip::tests::pack;

    const HEAD: &str = "identity/LineItemId,lineItem/UsageType,lineItem/UsageAmount,lineItem/UnblendedCost,\
                        lineItem/ResourceId,lineItem/Operation,lineItem/LineItemType,lineItem/CurrencyCode,\
                        lineItem/UsageStartDate,lineItem/UsageEndDate,resourceTags/aws:cloudformation:stack-name\n";

    fn read(name: &str, bytes: &[u8]) -> Result<Vec<Item>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let mut report = Report::open(&path)?;
        let mut items = Vec::new();
        while let Some(item) = report.next_item()? {
            items.push(item);
        }
        Ok(items)
    }

    fn refusal(bytes: &[u8]) -> String {
        read("cur.csv", bytes).unwrap_err().to_string()
    }

    #[test]
    fn quoted_fields_and_gzip_are_read() {
        let text = format!(
            "\u{feff}{HEAD}\"a,\"\"b\"\"\nc\",USE1-Lambda-GB-Second,1.5E1,0.00025,\"arn:aws:lambda:x:function:f\",Invoke,Usage,USD,\
             2026-11-27T17:00:00Z,2026-11-27T18:00:00Z,mine\n"
        );
        let plain = read("cur.csv", text.as_bytes()).unwrap();
        let wanted = Item {
            kind: "Usage".to_owned(),
            usage: "USE1-Lambda-GB-Second".to_owned(),
            operation: "Invoke".to_owned(),
            resource: "arn:aws:lambda:x:function:f".to_owned(),
            quantity: 15.0,
            unit: String::new(),
            cost: 0.000_25,
            currency: "USD".to_owned(),
            interval: ["2026-11-27T17:00:00", "2026-11-27T18:00:00"].map(str::to_owned),
            stack: "mine".to_owned(),
        };
        assert_eq!(plain, [wanted]);
        assert_eq!(read("cur-00001.csv.gz", &pack(text.as_bytes())).unwrap(), plain);
    }

    #[test]
    fn names_of_cur_2_are_known() {
        let text = "line_item_usage_type,line_item_usage_amount,line_item_unblended_cost,line_item_resource_id,\
                    line_item_usage_start_date,resource_tags\n\
                    Request,3,,b,2026-11-27 17:00:00.000,\"{\"\"aws_cloudformation_stack_name\"\":\"\"mine\"\"}\"\n";
        let items = read("cur.csv", text.as_bytes()).unwrap();
        let item = items.first().unwrap();
        assert_eq!((item.quantity, item.cost, &item.stack[..]), (3.0, 0.0, "mine"));
        assert_eq!((&item.kind[..], &item.currency[..]), ("Usage", "USD"));
        assert_eq!(item.interval, ["2026-11-27T17:00:00", ""]);
    }

    #[test]
    fn a_missing_column_is_named() {
        let said = refusal(b"lineItem/UsageType,lineItem/UsageAmount,lineItem/UnblendedCost\nRequest,1,0\n");
        assert!(said.contains("lineItem/ResourceId") && said.contains("resource IDs"), "{said}");
        let said = refusal(b"x,y\n1,2\n");
        assert!(said.contains("line 1") && said.contains("lineItem/UsageType"), "{said}");
        assert!(refusal(b"").contains("empty"));
    }

    #[test]
    fn damage_is_named_with_its_line() {
        let good = format!("{HEAD}1,Request,1,0,b,,,,,,\n");
        let said = refusal(format!("{good}2,Request,one,0,b,,,,,,\n").as_bytes());
        assert!(
            said.contains("line 3") && said.contains("lineItem/UsageAmount") && said.contains("one"),
            "{said}"
        );
        let said = refusal(format!("{good}2,Request\n").as_bytes());
        assert!(
            said.contains("line 3") && said.contains("11 fields") && said.contains("download it again"),
            "{said}"
        );
        let said = refusal(format!("{good}2,\"{}", "x".repeat(2 * MAX_ITEM_BYTES)).as_bytes());
        assert!(said.contains("never closed"), "{said}");
        let said = refusal(&[good.as_bytes(), b"2,\xff,1,0,b,,,,,,\n"].concat());
        assert!(said.contains("UTF-8"), "{said}");
        let packed = pack(good.as_bytes());
        let said = read("cur.csv.gz", &packed[..packed.len() - 9]).unwrap_err().to_string();
        assert!(said.contains("gzip"), "{said}");
        assert!(refusal(b"PAR1xxxx").contains("text/csv"));
        assert!(refusal(b"PK\x03\x04xxxx").contains("unpack"));
    }
}
