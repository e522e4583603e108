//! Test of the program on its own. Complete jobs are tested with sweeps, in
//! `host/cli/tests/suite/jobs.rs`.
use std::process::Command;

#[test]
fn without_lambdas_variables_it_says_what_it_is() {
    let ran = Command::new(env!("CARGO_BIN_EXE_trainer")).env_clear().output().unwrap();
    let said = String::from_utf8(ran.stderr).unwrap();
    assert!(!ran.status.success() && said.contains("AWS_LAMBDA_RUNTIME_API is not set"), "{said}");
}
