//! `eciton job`: runs one job of a bucket, in any container or batch system.

use eciton_exec::bucket::{Address, Bucket};
use eciton_train::job::{Stored, perform_stored};
use serde::Serialize;

use crate::failure::Failure;
use crate::interrupt;
use crate::output::Output;
use crate::text::seconds;

/// Variables in which batch systems pass the index of an array's job.
const INDEX_VARIABLES: [&str; 4] =
    ["AWS_BATCH_JOB_ARRAY_INDEX", "JOB_COMPLETION_INDEX", "SLURM_ARRAY_TASK_ID", "CLOUD_RUN_TASK_INDEX"];

const AFTER_HELP: &str = "\
Exit codes:
  0          the answer is in the store: written now, or found there
  1          another attempt would fail in the same way: the job is absent, changed or of another
             version, or its training failed
  2          the command line is wrong
  75         the store or the network failed, and another attempt may succeed
  130, 143   Ctrl-C or SIGTERM ended the job, and another attempt may succeed

A job that is killed leaves nothing in the store. Of several attempts at a job, one answer stays.
Credentials are those of AWS's default chain. TMPDIR names the folder for the job's files.";

/// `eciton job`
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// A job's description below the store's prefix (jobs/....json), or a list of them
    /// (jobs/....list)
    key: String,
    #[command(flatten)]
    store: Store,
    /// The line of the list, from 0 [default: the index of an array's job that AWS Batch,
    /// Kubernetes, Slurm or Cloud Run sets]
    #[arg(long, value_name = "N")]
    index: Option<u64>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The bucket of jobs.
#[derive(Debug, clap::Args)]
pub(crate) struct Store {
    /// The bucket of the jobs and their answers, and a prefix of its keys
    #[arg(long = "store", value_name = "s3://BUCKET/PREFIX")]
    url: String,
    /// The address of an S3-compatible service [default: AWS_ENDPOINT_URL_S3, else AWS]
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// The bucket's region [default: AWS_REGION, or that of the AWS profile]
    #[arg(long, value_name = "REGION")]
    region: Option<String>,
}

#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    #[serde(flatten)]
    performed: &'a Stored,
}

/// Runs the job and prints its outcome.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let Store { url, endpoint, region } = &arguments.store;
    let address = Address { url: url.clone(), endpoint: endpoint.clone(), region: region.clone() };
    address.parts().map_err(|error| Failure::usage(&error))?;
    let key = &arguments.key;
    let index = match (key.ends_with(".list"), arguments.index) {
        (true, given) => Some(index(given, &|name| std::env::var(name).ok()).map_err(Failure::Usage)?),
        (false, None) => None,
        (false, Some(_)) => {
            let reason = "is no list (its name does not end in .list): leave out --index, or name a list";
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
        true => format!("{key}: done before; its answer is {answer}"),
        false => format!("{key}: done in {}; its answer is {answer}", seconds(done.seconds)),
    });
    Ok(())
}

/// Returns the line index in a list of jobs: the given one, or that of a batch system's variables.
fn index(given: Option<u64>, variable: &dyn Fn(&str) -> Option<String>) -> Result<u64, String> {
    if let Some(index) = given {
        return Ok(index);
    }
    let mut found: Option<(&str, u64)> = None;
    for name in INDEX_VARIABLES {
        let Some(text) = variable(name).filter(|text| !text.is_empty()) else { continue };
        let index = text.parse().map_err(|_| {
            format!(
                "{name} is {text:?}, and an index is a number from 0; give the line of the list with --index"
            )
        })?;
        match found {
            Some((other, before)) if before != index => {
                return Err(format!(
                    "{other} is {before} and {name} is {index}; give the line of the list with --index"
                ));
            }
            _ => found = Some((name, index)),
        }
    }
    found.map(|(_, index)| index).ok_or_else(|| {
        format!(
            "a list needs an index, and none of {} is set; give the line of the list with --index",
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
        assert!(refused.contains("is 7 and"), "{refused}");
        let refused = of(None, &[(INDEX_VARIABLES[2], "")]).unwrap_err();
        assert!(refused.contains("none of") && refused.contains("SLURM_ARRAY_TASK_ID"), "{refused}");
    }
}
