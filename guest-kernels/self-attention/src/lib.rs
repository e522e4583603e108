//! Kernel `self-attention`: each token of a sequence by all tokens that it may see (Vaswani et al. 2017, section 3.2).
//!
//! x [n, 3 d] = [q | k | v], y [n, d]; `group` = T rows that follow each other are a sequence, and a row has `heads`
//! heads of d / heads values. For each sequence and head, with Q, K, V [T, d / heads]:
//!
//! ```text
//! P = softmax(mask(Q K^T / sqrt(d / heads))), Y = P V
//! dV = P^T dY, dS = P * (dY V^T - rowsum(P * dY V^T)) / sqrt(d / heads), dQ = dS K, dK = dS^T Q
//! ```
//!
//! With `causal`, the mask leaves a token those before it and itself. P is not kept but computed again in `backward`: of
//! its products that adds one to four, while keeping it is heads * T values a row that leave the task, a multiple of the d
//! of a row for all but the shortest sequences.

use eciton_sdk::prelude::*;

/// The configured layer.
#[derive(Debug)]
pub struct SelfAttention {
    by: Attention,
    /// Values of a row of the result.
    width: u32,
}

impl Kernel for SelfAttention {
    fn attributes() -> Vec<AttributeSpec> {
        vec![
            AttributeSpec::new("heads", "heads, each of an equal share of the values", None),
            AttributeSpec::new(
                "causal",
                "whether a token sees those before it and itself alone",
                Some(Value::Flag(false)),
            ),
            AttributeSpec::new("group", "rows of a sequence", None),
        ]
    }

    fn open(inputs: &[Vec<u32>], attributes: &Attributes) -> Result<Self> {
        let [input] = inputs else {
            return Err(Error::Argument(format!("self-attention takes one input, not {}", inputs.len())));
        };
        let heads = attributes.size("heads")?;
        let features = match input[..] {
            [all] if all > 0 && u64::from(all) % (3 * u64::from(heads)) == 0 => all / 3 / heads,
            _ => {
                return Err(Error::Argument(format!(
                    "self-attention: rows of extents {input:?} are not the queries, keys and values of {heads} heads; one extent is needed, a multiple of 3 heads"
                )));
            }
        };
        let group = attributes.size("group")?;
        if u64::from(group) * u64::from(input[0]) > u64::from(u32::MAX) {
            let text = format!("attribute `group` is {group}; a sequence has at most 2^32 - 1 values");
            return Err(Error::Argument(text));
        }
        let (causal, scale) = (attributes.flag("causal")?, 1.0 / (features as f32).sqrt());
        Ok(Self { by: Attention { heads, group, causal, scale }, width: heads * features })
    }

    fn signature(&self) -> Signature {
        let d = self.width;
        Signature::new().input("qkv", &[3 * d]).output("y", &[d]).needing_inputs()
    }

    fn forward<R: Real>(&self, _: &Task, io: Forward<'_>) -> Result<()> {
        dense::attend(io.inputs[0], self.by, io.outputs[0])
    }

    fn backward<R: Real>(&self, _: &Task, io: Backward<'_>) -> Result<()> {
        match io.input_gradients[0] {
            Some(into) => dense::attend_backward(io.inputs[0], self.by, io.gradients[0], into),
            None => Ok(()),
        }
    }
}

eciton_sdk::export_kernel!(SelfAttention);
