//! Task profiles: the times of steps, and the bytes that they move. Simulations and planners use
//! them.
//!
//! A profile has paces (seconds per floating-point operation, per edge and per byte) and, for
//! measured stages, values of each stage. All other values are counted from the program:
//!
//! ```text
//! products of a row   forward 2 k n     backward 2 k n for the weight, 2 k n more for the input
//! elementwise         8 a value of rows read or written
//! in                  4 bytes a value of the rows read, and the weights once a task
//! out                 4 bytes a value of the rows written, and the weights' gradients once a task
//! gather              seconds_per_edge_value x (edges + rows) x width
//! edge kernel         a gather of twice the width that it reads of all rows; backward, of four times
//! ```
//!
//! Features are *constant*, that is, the same in every epoch, so the host need not send them again.
//! If only a share of the feature values is stored, products with features cost that share, and a
//! stored value takes 8 bytes.
//!
//! The file is JSON, version 1. Unknown fields are refused. The code that reads a file calls
//! [`Profile::check`].

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::program::{Place, Program, SlotOf, Stage};
use eciton_recipe::Error as Refused;
use eciton_types::ids::{ParameterId, SlotId, StageId};

/// Version of the file format of profiles.
pub const PROFILE_VERSION: u32 = 1;
/// Maximum size of a profile's file, in bytes.
pub const MAX_PROFILE_BYTES: usize = 4 << 20;
/// Size of a value of dense rows (f32), in bytes.
const VALUE_BYTES: f64 = 4.0;
/// Size of a stored value of sparse rows, in bytes. It consists of the value and its column number.
const STORED_BYTES: f64 = 8.0;

/// Task profile, which has measured or estimated times and sizes of a program's steps. A step is a
/// stage on one interval of rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Version of the file format. It must be [`PROFILE_VERSION`].
    pub version: u32,
    /// Origin of the values, as text. It names the machine, the command and the date, or says that
    /// the values are estimates.
    pub source: String,
    /// Speed of one core of the host.
    pub host: HostPace,
    /// Speed of one vCPU of a function.
    pub function: FunctionPace,
    /// Measured lanes, relative to stages that run alone. `None` if no lanes were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lanes: Option<LanesPace>,
    /// Seconds of training per row, with updates and without evaluations. `None` if fewer than two
    /// rounds (updates) were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds_per_row: Option<f64>,
    /// Names of all stages of the profiled program, in order ([`Program::stage_name`]). The stage
    /// numbers in `stages` refer to this list. If the list is empty, `stages` fits any program that
    /// has the stages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub program: Vec<String>,
    /// Measured stages, each listed once. The values of all other stages are counted from the
    /// program.
    #[serde(default)]
    pub stages: Vec<StageProfile>,
}

/// Speed of one core of the host, in seconds per unit of work.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostPace {
    /// Seconds per floating-point operation of a kernel.
    pub seconds_per_flop: f64,
    /// Seconds that a gather takes per edge and per value of a row.
    pub seconds_per_edge_value: f64,
    /// Seconds of framing, encoding and encryption per byte that is sent to or received from a
    /// function.
    pub seconds_per_byte: f64,
    /// Seconds per gradient value that is added to a sum.
    pub seconds_per_value_added: f64,
    /// Seconds per weight value that is updated, in addition to the sum of its gradients.
    #[serde(default)]
    pub seconds_per_value_updated: f64,
    /// Fixed seconds of each step (a stage on one interval of rows), in addition to its
    /// computation.
    pub seconds_per_step: f64,
}

/// Speed of lanes that run at the same time. A lane is a worker's share of a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LanesPace {
    /// Computation time of a lane's steps, divided by the time of their stages when each runs
    /// alone.
    pub slowdown: f64,
    /// Seconds from the end of a step to the start of the next one that waits for it, in addition
    /// to the transfer of rows.
    pub seconds_per_step: f64,
}

/// Speed of one vCPU of a function, in seconds per unit of work. A task runs in one thread.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FunctionPace {
    /// Seconds per floating-point operation of a kernel.
    pub seconds_per_flop: f64,
    /// Fixed seconds of each task in the function, in addition to its computation.
    pub seconds_per_step: f64,
}

/// Cost of one stage, per row and per task. Measured times, where present, replace those that
/// follow from the counts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageProfile {
    /// Number of the stage in its program.
    pub stage: StageId,
    /// Floating-point operations per row. It is 0 for a gather.
    #[serde(default)]
    pub flops_per_row: f64,
    /// Input bytes per row that are the same in every epoch, such as features.
    #[serde(default)]
    pub constant_bytes_per_row: f64,
    /// Input bytes per row that change in every epoch.
    #[serde(default)]
    pub bytes_in_per_row: f64,
    /// Input bytes per task that do not depend on its rows, such as weights.
    #[serde(default)]
    pub bytes_in_per_task: f64,
    /// Output bytes per row.
    #[serde(default)]
    pub bytes_out_per_row: f64,
    /// Output bytes per task that do not depend on its rows, such as gradients of weights.
    #[serde(default)]
    pub bytes_out_per_task: f64,
    /// Number of values that a gather or an edge kernel sums for each edge. It is 0 for a vertex
    /// kernel.
    #[serde(default)]
    pub gather_width: u32,
    /// Measured seconds per row on a core of the host. If `None`, they are computed from the
    /// counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_seconds_per_row: Option<f64>,
    /// Measured seconds per row in a function with at least one vCPU. If `None`, they are computed
    /// from the counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function_seconds_per_row: Option<f64>,
    /// Measured fixed seconds per call on a core of the host. It is `None` unless calls of several
    /// sizes were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_seconds_per_call: Option<f64>,
}

impl Default for Profile {
    /// Returns the built-in profile. Its values are measurements from the design notes where there
    /// are any, and estimates otherwise.
    ///
    /// Host: 134 GFLOP/s a core (a 602 -> 128 product, AVX-512). Gathers by source blocks take 0.67
    /// s for 115 M edges of width 128 on 2 cores, which is 9.1e-11 s per edge and value. A warm
    /// call of a kernel takes 2.3 us.
    ///
    /// Estimates: a function's vCPU has a quarter of the host core's speed (half a core, vectors
    /// half as wide). Encoding and encryption take 1 ns per byte. Sums read 16 GB/s. A task in a
    /// function takes 0.5 ms in addition to its computation.
    fn default() -> Self {
        Self {
            version: PROFILE_VERSION,
            source:
                "built in: measurements from the design notes and estimates, not measured on your machines"
                    .to_owned(),
            host: HostPace {
                seconds_per_flop: 1.0 / 134e9,
                seconds_per_edge_value: 9.1e-11,
                seconds_per_byte: 1e-9,
                seconds_per_value_added: 2.5e-10,
                seconds_per_value_updated: 0.0,
                seconds_per_step: 2.3e-6,
            },
            function: FunctionPace { seconds_per_flop: 4.0 / 134e9, seconds_per_step: 5e-4 },
            lanes: None,
            seconds_per_row: None,
            program: Vec::new(),
            stages: Vec::new(),
        }
    }
}

/// Returns the names of a program's stages, in order. The stage that samples rows is left out.
#[must_use]
pub fn stage_names(program: &Program) -> Vec<String> {
    program.computing().iter().map(|stage| stage.name.clone()).collect()
}

impl Profile {
    /// Checks the version of the profile and that all its values are valid.
    ///
    /// # Errors
    /// Returns [`Error::Content`] for another version, for a value that is negative or not finite,
    /// or for a stage that is listed twice.
    pub fn check(&self) -> Result<()> {
        let wrong = |reason: String| Err(Error::from(Refused::Content { what: "a task profile", reason }));
        if self.version != PROFILE_VERSION {
            return wrong(format!("version {}; this program reads {PROFILE_VERSION}", self.version));
        }
        let (h, f) = (self.host, self.function);
        let paces = [
            h.seconds_per_flop,
            h.seconds_per_edge_value,
            h.seconds_per_byte,
            h.seconds_per_value_added,
            h.seconds_per_value_updated,
            h.seconds_per_step,
            f.seconds_per_flop,
            f.seconds_per_step,
            self.lanes.map_or(0.0, |lanes| lanes.slowdown),
            self.lanes.map_or(0.0, |lanes| lanes.seconds_per_step),
            self.seconds_per_row.unwrap_or(0.0),
        ];
        let stages = self.stages.iter().flat_map(|s| {
            [
                s.flops_per_row,
                s.constant_bytes_per_row,
                s.bytes_in_per_row,
                s.bytes_in_per_task,
                s.bytes_out_per_row,
                s.bytes_out_per_task,
                s.host_seconds_per_row.unwrap_or(0.0),
                s.function_seconds_per_row.unwrap_or(0.0),
                s.host_seconds_per_call.unwrap_or(0.0),
            ]
        });
        if let Some(figure) = paces.into_iter().chain(stages).find(|f| !(f.is_finite() && *f >= 0.0)) {
            return wrong(format!("found {figure}, expected a number of at least 0"));
        }
        let mut seen: Vec<StageId> = self.stages.iter().map(|stage| stage.stage).collect();
        seen.sort_unstable();
        match seen.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => wrong(format!("stage {} is listed twice", pair[0])),
            None => Ok(()),
        }
    }

    /// Returns the cost of every stage of a program. Measured stages have the values of the
    /// profile, and all others are counted from the program. `stored` is the fraction of the
    /// feature values that is stored, above 0 and up to 1.
    ///
    /// # Errors
    /// Returns [`Error::Content`] for a stage that the program does not have, and the errors of
    /// [`Profile::check`] and [`Profile::check_program`].
    pub fn stages(&self, program: &Program, stored: f64) -> Result<Vec<StageProfile>> {
        self.check()?;
        self.check_program(program)?;
        let mut stages: Vec<StageProfile> = (0u16..)
            .zip(program.computing())
            .map(|(id, stage)| count(program, StageId(id), stage, stored))
            .collect();
        for measured in &self.stages {
            let known = stages.len();
            let stage = stages.get_mut(measured.stage.index()).ok_or_else(|| {
                Error::from(Refused::Content {
                    what: "a task profile of this program",
                    reason: format!("stage {} does not exist in a program of {known} stages", measured.stage),
                })
            })?;
            *stage = *measured;
        }
        Ok(stages)
    }

    /// Checks that the measured stages belong to this program.
    ///
    /// # Errors
    /// Returns [`Error::Content`] if the stage names in the profile differ from those of the
    /// program. The error names the first stage that differs.
    pub fn check_program(&self, program: &Program) -> Result<()> {
        let (measured, own) = (&self.program, stage_names(program));
        if measured.is_empty() || self.stages.is_empty() || *measured == own {
            return Ok(());
        }
        let at = measured.iter().zip(&own).take_while(|(a, b)| a == b).count();
        let name = |names: &[String]| names.get(at).map_or("none".to_owned(), |name| format!("`{name}`"));
        Err(Error::from(Refused::Content {
            what: "a task profile of this program",
            reason: format!(
                "stage {at} is {} in the profile and {} in the program; remove `stages` from the profile to use only its paces",
                name(measured),
                name(&own)
            ),
        }))
    }
}

/// Returns the cost of a stage as counted from the program. If the stage may run outside the host,
/// it includes the bytes of the stage's rows, parameters and gradients.
fn count(program: &Program, stage: StageId, what: &Stage, stored: f64) -> StageProfile {
    let mut found = StageProfile {
        stage,
        flops_per_row: what.cost.feature_flops * stored + what.cost.flops,
        constant_bytes_per_row: 0.0,
        bytes_in_per_row: 0.0,
        bytes_in_per_task: 0.0,
        bytes_out_per_row: 0.0,
        bytes_out_per_task: 0.0,
        gather_width: what.cost.edge_values,
        host_seconds_per_row: None,
        function_seconds_per_row: None,
        host_seconds_per_call: None,
    };
    if what.place == Place::Host {
        return found;
    }
    let slot = |id: SlotId| program.slots.get(id.index());
    for slot in what.own().filter_map(slot) {
        let width = f64::from(slot.width);
        match slot.of {
            SlotOf::Features => {
                found.constant_bytes_per_row += (STORED_BYTES * stored).min(VALUE_BYTES) * width;
            }
            _ => found.bytes_in_per_row += VALUE_BYTES * width,
        }
    }
    found.bytes_out_per_row =
        what.writes().filter_map(slot).map(|slot| VALUE_BYTES * f64::from(slot.width)).sum();
    let bytes = |parameters: &[ParameterId]| -> f64 {
        let known = parameters.iter().filter_map(|id| program.parameters.get(id.index()));
        known.map(|parameter| VALUE_BYTES * parameter.len() as f64).sum()
    };
    let operation = program.operations.get(what.operation.index());
    found.bytes_in_per_task = operation.map_or(0.0, |operation| bytes(&operation.parameters));
    found.bytes_out_per_task = bytes(&what.sums);
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::sample_programs::gcn;

    #[test]
    fn a_programs_stages_are_counted_by_hand() {
        let program = gcn(2, 16, 100, 7);
        let stages = Profile::default().stages(&program, 1.0).unwrap();
        // T0: 100 features (constant) in, 16 out, W0 of 1600.
        let first = stages[0];
        assert_eq!(first.flops_per_row, 2.0 * 1600.0 + 8.0 * 16.0);
        assert_eq!((first.constant_bytes_per_row, first.bytes_in_per_row), (400.0, 0.0));
        assert_eq!((first.bytes_in_per_task, first.bytes_out_per_task), (6400.0, 0.0));
        assert_eq!(first.bytes_out_per_row, 64.0);
        assert_eq!((stages[1].gather_width, stages[1].flops_per_row), (16, 0.0));
        // T1': input of 16 and gradient of 7 in, gradient of 16 out; W1 of 112 and a bias of 16.
        let backward = stages[6];
        assert_eq!(backward.flops_per_row, 2.0 * 112.0 * 2.0 + 8.0 * (16.0 + 7.0 + 16.0));
        assert_eq!((backward.bytes_in_per_row, backward.bytes_out_per_row), (92.0, 64.0));
        assert_eq!((backward.bytes_in_per_task, backward.bytes_out_per_task), (512.0, 512.0));
        // T0': no gradient of the features.
        assert_eq!(stages[8].flops_per_row, 2.0 * 1600.0 + 8.0 * 16.0);
        // A tenth of the features is stored.
        let sparse = Profile::default().stages(&program, 0.1).unwrap()[0];
        assert!((sparse.flops_per_row - (320.0 + 128.0)).abs() < 1e-9);
        assert!((sparse.constant_bytes_per_row - 80.0).abs() < 1e-9);
    }

    #[test]
    fn measured_stages_win_and_strange_ones_are_refused() {
        let program = gcn(2, 16, 100, 7);
        let measured =
            StageProfile { flops_per_row: 5.0, ..Profile::default().stages(&program, 1.0).unwrap()[2] };
        let mut profile = Profile { stages: vec![measured], ..Profile::default() };
        assert_eq!(profile.stages(&program, 1.0).unwrap()[2].flops_per_row, 5.0);
        profile.stages.push(measured);
        assert!(profile.check().unwrap_err().to_string().contains("twice"));
        profile.stages = vec![StageProfile { stage: StageId(9), ..measured }];
        assert!(profile.stages(&program, 1.0).unwrap_err().to_string().contains("stage 9"));
        profile.stages = vec![StageProfile { host_seconds_per_row: Some(-1.0), ..measured }];
        assert!(profile.check().unwrap_err().to_string().contains("-1"));
        profile.stages = vec![StageProfile { flops_per_row: f64::NAN, ..measured }];
        assert!(profile.check().unwrap_err().to_string().contains("NaN"));
        let program_of = |widths| stage_names(&gcn(widths, 16, 100, 7));
        let of =
            |widths| Profile { program: program_of(widths), stages: vec![measured], ..Profile::default() };
        assert_eq!(of(2).stages(&program, 1.0).unwrap()[2].flops_per_row, 5.0);
        let other = of(3).stages(&program, 1.0).unwrap_err().to_string();
        assert!(
            other.contains("stage 4 is `linear 2 forward` in the profile and `head 2 loss` in the program"),
            "{other}"
        );
        assert!(Profile { stages: vec![], ..of(3) }.stages(&program, 1.0).is_ok(), "paces are of any");
        let old = Profile { version: 0, ..Profile::default() };
        assert!(old.check().unwrap_err().to_string().contains("version 0"));
    }
}
