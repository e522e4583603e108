//! Lines of an AWS Cost and Usage Report that belong to the stack of an earlier proof, compared
//! with the predictions of that proof.

use std::collections::BTreeMap;
use std::path::Path;

use eciton_formats::cost_report::{Item, Report};
use serde::{Deserialize, Serialize};

use super::proof::{Proof, ratio, without_account};
use crate::failure::Failure;
use crate::text::counted;

/// Types of line items that have a quantity. Items of other types, for instance credits, have only
/// a cost.
const USAGE: [&str; 3] = ["Usage", "DiscountedUsage", "SavingsPlanCoveredUsage"];

/// Lines of a Cost and Usage Report that belong to the stack of a proof.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Invoice {
    /// File name of the Cost and Usage Report.
    pub(super) file: String,
    /// Number of line items in the report.
    pub(super) items: u64,
    /// Number of line items in the report that belong to the stack.
    pub(super) own_items: u64,
    /// Currency of the costs. Costs can be compared with the predictions only if the currency is
    /// USD.
    pub(super) currency: String,
    pub(super) lines: Vec<Charged>,
    pub(super) notes: Vec<String>,
}

/// Usage of one type by one resource of the stack, for instance the requests of a function.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Charged {
    /// Name of the function or bucket, or `stack` for the sum of all resources.
    pub(super) resource: String,
    /// Usage type without the prefix of the region, for instance `Request`.
    pub(super) usage: String,
    pub(super) operation: String,
    pub(super) unit: String,
    /// Predicted quantity. `None` if nothing was predicted.
    pub(super) predicted: Option<f64>,
    /// Quantity by the service's report lines and Eciton's counts. `None` if nothing was predicted,
    /// or if the service did not report every call.
    pub(super) counted: Option<f64>,
    /// Quantity in the Cost and Usage Report. `None` if the report has no such line.
    pub(super) billed: Option<f64>,
    /// Predicted divided by billed quantity. `None` if a quantity is missing or the ratio is
    /// undefined.
    pub(super) ratio: Option<f64>,
    pub(super) predicted_usd: Option<f64>,
    /// Unblended cost of the usage, in the currency of the report.
    pub(super) cost: Option<f64>,
    /// Cost of credits and other line items without a quantity, in the currency of the report.
    pub(super) credits: f64,
}

/// Returns a usage type without the prefix of its region, for instance `Request` for
/// `USE1-Request`.
fn without_region(usage: &str) -> &str {
    match usage.split_once('-') {
        Some((prefix, rest))
            if (2..=5).contains(&prefix.len())
                && prefix.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit()) =>
        {
            rest
        }
        _ => usage,
    }
}

/// Returns the name of the stack's resource that a line item belongs to. Returns `None` if the item
/// does not belong to the stack.
fn owner(proof: &Proof, item: &Item) -> Option<String> {
    let resource = &item.resource[..];
    // An ARN of a function ends with the name, or with the name and a version. An ARN of a log
    // group ends with the name.
    let has = |name: &str| resource.split([':', '/']).any(|part| part == name);
    let stack = &proof.stack;
    let worker = format!("{}-worker-", stack.name);
    let packages = format!("{}-packages-", stack.name);
    let last = resource.rsplit([':', '/']).next().unwrap_or_default();
    if !stack.bucket.is_empty() && has(&stack.bucket) {
        return Some(stack.bucket.clone());
    }
    let is_other_region = resource.starts_with("arn:") && !resource.contains(&format!(":{}:", proof.region));
    if let Some(function) = stack.functions.iter().find(|function| has(&function.name) && !is_other_region) {
        return Some(function.name.clone());
    }
    if last.starts_with(&packages) && last.ends_with(&proof.region) {
        return Some(last.to_owned());
    }
    let is_tagged =
        item.stack == stack.name || resource.split([':', '/']).any(|part| part.starts_with(&worker));
    (is_tagged && !is_other_region)
        .then(|| if last.is_empty() { "stack".to_owned() } else { last.to_owned() })
}

/// Returns true if the time interval of a line item overlaps that of the proof, or if the item has
/// no interval.
fn overlaps(proof: &Proof, item: &Item) -> bool {
    let cut = |text: &str| text.chars().take(19).collect::<String>();
    let [start, end] = &item.interval;
    let (begun, ended) = (cut(&proof.begun), proof.ended.as_deref().map(cut));
    let starts_before = start.is_empty() || ended.is_none_or(|ended| *start <= ended);
    starts_before && (end.is_empty() || *end > begun)
}

/// Pair of a resource and a usage type without the prefix of the region.
type Key = (String, String);

/// Reads the Cost and Usage Report at `path`, and compares its lines with the predictions of a
/// proof.
///
/// # Errors
/// Returns a failure if the report cannot be read, or if the lines of the stack have several
/// currencies.
pub(super) fn join(proof: &Proof, path: &Path) -> Result<Invoice, Failure> {
    let mut report = Report::open(path)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut invoice = Invoice { file: name, ..Invoice::default() };
    let mut found: BTreeMap<Key, Charged> = BTreeMap::new();
    let (mut currencies, mut earlier) = (BTreeMap::<String, u64>::new(), 0u64);
    while let Some(item) = report.next_item()? {
        invoice.items += 1;
        let Some(owner) = owner(proof, &item) else { continue };
        if !overlaps(proof, &item) {
            earlier += 1;
            continue;
        }
        invoice.own_items += 1;
        *currencies.entry(item.currency.clone()).or_default() += 1;
        let usage = without_region(&item.usage).to_owned();
        let owner = without_account(&owner);
        let charged = found.entry((owner.clone(), usage.clone())).or_insert_with(|| Charged {
            resource: owner,
            usage,
            operation: item.operation.clone(),
            unit: item.unit.clone(),
            ..Charged::default()
        });
        if USAGE.contains(&&item.kind[..]) {
            *charged.billed.get_or_insert(0.0) += item.quantity;
            *charged.cost.get_or_insert(0.0) += item.cost;
        } else {
            charged.credits += item.cost;
        }
    }
    let mut names = currencies.into_keys();
    invoice.currency = match (names.next(), names.next()) {
        (None, _) => "USD".to_owned(),
        (Some(one), None) => one,
        (Some(one), Some(other)) => {
            return Err(Failure::Failed(format!(
                "{}: lines of this stack have the currencies {one} and {other}, expected one currency; use a report with \
                 a single currency",
                path.display()
            )));
        }
    };
    invoice.lines = lines(proof, found);
    invoice.notes = notes(proof, &invoice, earlier);
    Ok(invoice)
}

/// Returns notes for the reader on the limitations of the comparison. `earlier` is the number of
/// lines that were skipped because they are from another time.
fn notes(proof: &Proof, invoice: &Invoice, earlier: u64) -> Vec<String> {
    let mut notes = vec![
        "the report does not separate W1 from W2, nor the bucket requests of memory sizes; these lines are sums".to_owned(),
        "the report includes requests of `eciton deploy`, of `eciton destroy` and of the removal of objects between \
         runs, which are not predicted"
            .to_owned(),
    ];
    if invoice.own_items == 0 {
        notes.push(format!(
            "the report has no line of stack `{}` between {} and {}; reports arrive up to 24 hours later, and must \
             include resource IDs",
            proof.stack.name,
            proof.begun,
            proof.ended.as_deref().unwrap_or("the end")
        ));
    }
    if earlier > 0 {
        notes.push(format!(
            "skipped {} of resources with these names from other times",
            counted(earlier, "line")
        ));
    }
    if invoice.currency != "USD" {
        notes.push(format!(
            "costs are in {}, predictions in USD; only quantities are compared",
            invoice.currency
        ));
    }
    let free = |line: &&Charged| line.billed.is_some_and(|billed| billed > 0.0) && line.cost == Some(0.0);
    if invoice.lines.iter().any(|line| free(&line)) {
        notes.push(
            "usage at a cost of 0 is covered by the free tier or a savings plan; predictions include neither"
                .to_owned(),
        );
    }
    notes
}

/// Returns the predicted lines with the quantities of the report, followed by the other lines of
/// the report.
fn lines(proof: &Proof, mut found: BTreeMap<Key, Charged>) -> Vec<Charged> {
    let mut lines = Vec::new();
    for (resource, usage) in predicted_usage(proof) {
        let has_resource = |run: &&super::proof::Run| resource == STACK || run.function == resource;
        let runs = proof.runs.iter().filter(has_resource);
        let own: Vec<_> = runs.flat_map(|run| &run.lines).filter(|line| line.usage == usage).collect();
        let keys: Vec<Key> = found
            .keys()
            .filter(|(name, other)| *other == usage && (resource == STACK || *name == resource))
            .cloned()
            .collect();
        let parts: Vec<Charged> = keys.iter().filter_map(|key| found.remove(key)).collect();
        let sum = |value: fn(&Charged) -> Option<f64>| {
            parts.iter().filter_map(value).reduce(|one, other| one + other)
        };
        let predicted: f64 = own.iter().map(|line| line.predicted).sum();
        let counted: Option<f64> = own.iter().map(|line| line.billed).sum();
        let billed = sum(|part| part.billed);
        lines.push(Charged {
            operation: parts.first().map_or_else(String::new, |part| part.operation.clone()),
            unit: own.first().map_or_else(String::new, |line| line.unit.clone()),
            predicted: Some(predicted),
            counted,
            billed,
            ratio: ratio(predicted, billed),
            predicted_usd: Some(own.iter().map(|line| line.predicted_usd).sum()),
            cost: sum(|part| part.cost),
            credits: parts.iter().map(|part| part.credits).sum(),
            resource,
            usage,
        });
    }
    lines.extend(found.into_values());
    lines
}

/// Resource name of a line that is the sum over all resources of the stack.
const STACK: &str = "stack";

/// Returns the pairs of resource and usage type that the proof predicted, functions first.
/// Functions have separate lines for each memory size, and all other lines are sums over the stack.
fn predicted_usage(proof: &Proof) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for run in &proof.runs {
        for line in &run.lines {
            let is_functions = line.usage.starts_with("Lambda-")
                || line.usage.starts_with("Request") && !line.usage.starts_with("Requests-");
            let resource = if is_functions { run.function.clone() } else { STACK.to_owned() };
            let key = (resource, line.usage.clone());
            if !all.contains(&key) {
                all.push(key);
            }
        }
    }
    // Functions come first, in the order of the runs.
    all.sort_by_key(|(resource, _)| resource == STACK);
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::proof::tests::proof;
    use super::*;

    const HEAD: &str = "lineItem/UsageType,lineItem/UsageAmount,lineItem/UnblendedCost,lineItem/ResourceId,\
                        lineItem/LineItemType,lineItem/CurrencyCode,lineItem/UsageStartDate,lineItem/UsageEndDate,\
                        resourceTags/aws:cloudformation:stack-name\n";
    const HOUR: &str = "2026-11-27T17:00:00Z,2026-11-27T18:00:00Z";

    fn arn(name: &str) -> String {
        format!("arn:aws:lambda:us-east-1:123456789012:function:{name}")
    }

    fn joined(lines: &str) -> Result<Invoice, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cur.csv");
        std::fs::write(&path, format!("{HEAD}{lines}")).unwrap();
        join(&proof(), &path).map_err(Failure::into_text)
    }

    fn find<'a>(invoice: &'a Invoice, resource: &str, usage: &str) -> &'a Charged {
        invoice.lines.iter().find(|line| line.resource == resource && line.usage == usage).unwrap()
    }

    #[test]
    fn lines_are_joined_by_resource_and_time() {
        let (small, large) = (arn("mine-worker-512"), arn("mine-worker-1769"));
        let text = format!(
            "USE1-Lambda-GB-Second,3,0.00003,{small},Usage,USD,{HOUR},\n\
             USE1-Lambda-GB-Second,1,0.00001,{small},Usage,USD,{HOUR},\n\
             USE1-Lambda-GB-Second,0,-0.00004,{small},Credit,USD,{HOUR},\n\
             Lambda-GB-Second,5,0.00005,{large},Usage,USD,{HOUR},\n\
             Request,2,0.0000004,{small}:1,Usage,USD,{HOUR},\n\
             Lambda-GB-Second,99,1,{},Usage,USD,{HOUR},\n\
             Lambda-GB-Second,77,1,{small},Usage,USD,2026-11-26T17:00:00Z,2026-11-26T18:00:00Z,\n\
             EU-Requests-Tier1,9,0.00005,mine-bucket-1,Usage,USD,{HOUR},\n\
             Requests-Tier1,6,0.00003,mine-packages-123456789012-us-east-1,Usage,USD,{HOUR},\n\
             DataProcessing-Bytes,0.01,0.005,arn:aws:logs:us-east-1:1:log-group:/aws/lambda/mine-worker-512,Usage,USD,{HOUR},\n\
             TimedStorage-ByteHrs,0.1,0.001,elsewhere,Usage,USD,{HOUR},mine\n\
             BoxUsage:c7a,1,1,i-1,Usage,USD,{HOUR},\n",
            arn("mine-worker-512").replace("us-east-1", "eu-west-1"),
        );
        let invoice = joined(&text).unwrap();
        assert_eq!((invoice.items, invoice.own_items, &invoice.currency[..]), (12, 9, "USD"));
        let small = find(&invoice, "mine-worker-512", "Lambda-GB-Second");
        assert_eq!((small.predicted, small.counted, small.billed), (Some(6.0), Some(4.0), Some(4.0)));
        assert_eq!((small.ratio, small.credits), (Some(1.5), -0.00004));
        assert!((small.cost.unwrap() - 0.00004).abs() < 1e-12);
        assert_eq!(find(&invoice, "mine-worker-1769", "Lambda-GB-Second").billed, Some(5.0));
        assert_eq!(find(&invoice, "mine-worker-512", "Request").ratio, Some(1.0));
        assert_eq!(find(&invoice, "mine-worker-1769", "Request").billed, None, "the report has no such line");
        // Buckets of objects and of packages are one line.
        let puts = find(&invoice, "stack", "Requests-Tier1");
        assert_eq!((puts.predicted, puts.billed), (Some(8.0), Some(15.0)));
        assert_eq!(find(&invoice, "mine-worker-512", "DataProcessing-Bytes").predicted, None);
        assert_eq!(find(&invoice, "elsewhere", "TimedStorage-ByteHrs").billed, Some(0.1), "by its tag");
        assert!(invoice.notes.iter().any(|note| note.contains("1 line of resources")), "{:?}", invoice.notes);
    }

    #[test]
    fn with_another_currency_only_quantities_are_compared() {
        let text = format!("Request,4,0.1,{},Usage,EUR,{HOUR},\n", arn("mine-worker-512"));
        let invoice = joined(&text).unwrap();
        assert_eq!(invoice.currency, "EUR");
        assert_eq!(find(&invoice, "mine-worker-512", "Request").ratio, Some(0.5));
        assert!(invoice.notes.iter().any(|note| note.contains("costs are in EUR")));
        let both = text.replace("EUR", "USD") + &text;
        let said = joined(&both).unwrap_err();
        assert!(said.contains("EUR") && said.contains("USD") && said.contains("one currency"), "{said}");
    }

    #[test]
    fn a_report_without_the_stack_says_so() {
        let invoice = joined("").unwrap();
        assert_eq!(invoice.own_items, 0);
        assert!(invoice.notes.iter().any(|note| note.contains("24 hours")), "{:?}", invoice.notes);
        assert!(invoice.lines.iter().all(|line| line.billed.is_none() && line.ratio.is_none()));
    }

    #[test]
    fn regions_are_no_part_of_a_usage_type() {
        for (given, wanted) in [
            ("USE1-Lambda-GB-Second", "Lambda-GB-Second"),
            ("EU-Request", "Request"),
            ("Lambda-GB-Second-ARM", "Lambda-GB-Second-ARM"),
            ("DataTransfer-Out-Bytes", "DataTransfer-Out-Bytes"),
            ("APN1-DataTransfer-Out-Bytes", "DataTransfer-Out-Bytes"),
            ("Request", "Request"),
        ] {
            assert_eq!(without_region(given), wanted);
        }
    }
}
