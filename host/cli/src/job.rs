//! The command `eciton job`, which executes one job from a bucket, in any container or batch
//! system.

use eciton_exec::bucket::{Address, Bucket};
use eciton_train::job::{Stored, perform_stored};
use serde::Serialize;

use crate::failure::Failure;
use crate::interrupt;
use crate::output::Output;
use crate::text::seconds;

/// Environment variables in which batch systems pass the index of a job within its array.
const INDEX_VARIABLES: [&str; 4] =
    ["AWS_BATCH_JOB_ARRAY_INDEX", "JOB_COMPLETION_INDEX", "SLURM_ARRAY_TASK_ID", "CLOUD_RUN_TASK_INDEX"];

const AFTER_HELP: &str = "\
Exit codes:
  0         The answer is in the store, from this or an earlier attempt.
  1         The job failed, and another attempt would fail too: the job is
            missing, changed or of another version, or its training failed.
  2         The command line is invalid.
  75        The store or the network failed; another attempt may succeed.
  130, 143  Ctrl-C or SIGTERM ended the job; another attempt may succeed.

A job that is killed leaves nothing in the store. If a job is attempted several
times, the store keeps one answer. The job uses the default AWS credential
chain. TMPDIR names the folder for temporary files.";

/// Arguments of `eciton job`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Key of a job (jobs/....json) or of a job list (jobs/....list), relative to the store's
    /// prefix
    key: String,
    #[command(flatten)]
    store: Store,
    /// Index of the job in the list, from 0 [default: the array index that AWS Batch, Kubernetes,
    /// Slurm or Cloud Run sets]
    #[arg(long, value_name = "N")]
    index: Option<u64>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Bucket that stores jobs and their answers.
#[derive(Debug, clap::Args)]
pub(crate) struct Store {
    /// Bucket of the jobs and their answers, and a prefix of the object keys
    #[arg(long = "store", value_name = "s3://BUCKET/PREFIX")]
    url: String,
    /// Address of an S3-compatible service [default: AWS_ENDPOINT_URL_S3, else AWS]
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// Region of the bucket [default: AWS_REGION, else the region of the AWS profile]
    #[arg(long, value_name = "REGION")]
    region: Option<String>,
}

#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    #[serde(flatten)]
    performed: &'a Stored,
}

/// Executes the job, stores its answer, and prints the outcome.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let Store { url, endpoint, region } = &arguments.store;
    let address = Address { url: url.clone(), endpoint: endpoint.clone(), region: region.clone() };
    address.parts().map_err(|error| Failure::usage(&error))?;
    let key = &arguments.key;
    let index = match (key.ends_with(".list"), arguments.index) {
        (true, given) => Some(index(given, &|name| std::env::var(name).ok()).map_err(Failure::Usage)?),
        (false, None) => None,
        (false, Some(_)) => {
            let reason = "is a single job, not a job list (.list): omit --index, or name a job list";
            return Err(Failure::Usage(format!("{key} {reason}")));
        }
    };
    // The kernel delivers SIGTERM to the first process of a container only if it has a handler.
    interrupt::exit_at_once()?;
    let bucket = Bucket::open(&address)?;
    let performed = perform_stored(&bucket, key, index).map_err(|error| Failure::attempt(&error))?;
    if arguments.json {
        output.json(&Line { event: "job", performed: &performed });
        return Ok(());
    }
    let Stored { key, answer, done } = &performed;
    output.line(match done.found {
        true => format!("{key}: already answered; answer stored as {answer}"),
        false => format!("{key}: completed in {}; answer stored as {answer}", seconds(done.seconds)),
    });
    Ok(())
}

/// Returns the index of the job in a job list. It is `given` (the value of `--index`), or otherwise
/// the value that `variable` finds in an environment variable of the batch system.
fn index(given: Option<u64>, variable: &dyn Fn(&str) -> Option<String>) -> Result<u64, String> {
    if let Some(index) = given {
        return Ok(index);
    }
    let mut found: Option<(&str, u64)> = None;
    for name in INDEX_VARIABLES {
        let Some(text) = variable(name).filter(|text| !text.is_empty()) else { continue };
        let index = text.parse().map_err(|_| {
            format!(
                "environment variable {name} is {text:?}, expected a whole number from 0; give the index of the job \
                 with --index"
            )
        })?;
        match found {
            Some((other, before)) if before != index => {
                return Err(format!(
                    "environment variable {other} is {before}, but {name} is {index}; give the index of the job with \
                     --index"
                ));
            }
            _ => found = Some((name, index)),
        }
    }
    found.map(|(_, index)| index).ok_or_else(|| {
        format!(
            "a job list requires an index, but none of {} is set; give the index of the job with --index",
            INDEX_VARIABLES.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_is_given_or_that_of_the_batch_system() {
        let of = |given: Option<u64>, set: &[(&str, &str)]| {
            index(given, &|name| {
                set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            })
        };
        for name in INDEX_VARIABLES {
            assert_eq!(of(None, &[(name, "7")]), Ok(7));
            assert_eq!(of(Some(1), &[(name, "7")]), Ok(1));
            let refused = of(None, &[(name, "-1")]).unwrap_err();
            assert!(refused.contains(name) && refused.contains("--index"), "{refused}");
        }
        assert_eq!(of(None, &[(INDEX_VARIABLES[0], "7"), (INDEX_VARIABLES[1], "7")]), Ok(7));
        let refused = of(None, &[(INDEX_VARIABLES[0], "7"), (INDEX_VARIABLES[1], "8")]).unwrap_err();
        assert!(refused.contains("is 7, but"), "{refused}");
        let refused = of(None, &[(INDEX_VARIABLES[2], "")]).unwrap_err();
        assert!(refused.contains("none of") && refused.contains("SLURM_ARRAY_TASK_ID"), "{refused}");
    }
}
