//! Small programs for tests of this crate and of the planners, and the signatures of their kernels.
#![allow(clippy::unwrap_used, clippy::panic, dead_code)]

use crate::testing::Random;
use eciton_program::{DataShape, Program, Rewrites};
use eciton_recipe::{Model, ModelSettings, TaskType};
use eciton_types::signature::{
    Attribute, BackwardNeeds, EdgeSignature, Initialiser, ParameterSpec, RowsSpec, Signature, TargetKind,
    Value,
};

/// Returns the signatures of built-in kernels and of two user kernels, which have the width `out`.
/// The second user kernel is an edge kernel.
pub(crate) fn signature(
    kernel: &str,
    inputs: &[Vec<u32>],
    attributes: &[Attribute],
) -> Result<Signature, String> {
    let find = |name: &str| attributes.iter().find(|a| a.name == name).map(|a| &a.value);
    let flag = |name: &str| find(name) == Some(&Value::Flag(true));
    let width = inputs[0][0];
    let parameter = |name: &str, shape: &[u32], initialiser| ParameterSpec {
        name: name.to_owned(),
        shape: shape.to_vec(),
        initialiser,
    };
    let rows = |width| vec![RowsSpec { name: "rows".into(), extents: vec![width] }];
    let mut signature = Signature { inputs: rows(width), ..Signature::default() };
    match kernel {
        "sum" | "activate" | "normalise" => {
            let spec = |at: usize| RowsSpec { name: format!("x{at}"), extents: inputs[at].clone() };
            signature.inputs = (0..inputs.len()).map(spec).collect();
            signature.outputs = rows(width);
            let shape: &[u32] = if kernel == "sum" { &[1] } else { &[width] };
            if flag("input-bias") {
                signature.parameters.push(parameter("input-bias", shape, Initialiser::Zeros));
            }
            if flag("trained") {
                signature.parameters.push(parameter("epsilon", shape, Initialiser::Constant(0.0)));
            }
            if kernel == "normalise" && find("by") != Some(&Value::Text("l2".to_owned())) {
                signature.parameters.push(parameter("scale", shape, Initialiser::Constant(1.0)));
                signature.parameters.push(parameter("shift", shape, Initialiser::Zeros));
            }
            let inputs = kernel != "sum" || flag("trained");
            signature.backward_needs = BackwardNeeds { inputs, outputs: false };
        }
        "linear" => {
            let Some(&Value::Integer(out)) = find("out-features") else {
                return Err("out-features must be given".to_owned());
            };
            let out = u32::try_from(out).unwrap();
            let shape = if flag("transposed") { [out, width] } else { [width, out] };
            signature.parameters = vec![parameter("weight", &shape, Initialiser::GlorotUniform)];
            if flag("input-bias") {
                signature.parameters.push(parameter("input-bias", &[width], Initialiser::Zeros));
            }
            if flag("bias") {
                signature.parameters.push(parameter("bias", &[out], Initialiser::Zeros));
            }
            signature.outputs = rows(out);
            signature.backward_needs = BackwardNeeds { inputs: true, outputs: false };
        }
        "attention" => {
            let (Some(&Value::Integer(heads)), Some(&Value::Integer(features))) =
                (find("heads"), find("features"))
            else {
                return Err("heads and features must be given".to_owned());
            };
            let values = u32::try_from(heads * features).unwrap();
            if flag("input-bias") {
                signature.parameters.push(parameter("input-bias", &[width], Initialiser::Zeros));
            }
            let bound = Initialiser::Uniform((6.0 / (heads + features) as f32).sqrt());
            let weight = parameter("weight", &[width, values], Initialiser::GlorotUniform);
            let scores = ["source", "target"].map(|name| parameter(name, &[values], bound));
            signature.parameters.extend([weight].into_iter().chain(scores));
            signature.outputs = rows(values + 2 * u32::try_from(heads).unwrap());
            signature.backward_needs = BackwardNeeds { inputs: true, outputs: true };
        }
        "gatv2" => {
            let (Some(&Value::Integer(heads)), Some(&Value::Integer(features))) =
                (find("heads"), find("features"))
            else {
                return Err("heads and features must be given".to_owned());
            };
            let [heads, features] = [heads, features].map(|count| u32::try_from(count).unwrap());
            let spec = |name: &str, width| RowsSpec { name: name.to_owned(), extents: vec![width] };
            signature.inputs = vec![spec("source", width), spec("target", inputs[1][0])];
            let bound = Initialiser::Uniform((6.0 / (heads + features) as f32).sqrt());
            signature.parameters = vec![parameter("attention", &[heads, features], bound)];
            let out = if flag("average") { features } else { width };
            signature.outputs = rows(out);
            signature.kept = vec![spec("softmax", 2 * heads)];
            let passed = spec("passed", width + out + 3 * heads);
            signature.edges = Some(EdgeSignature { passed });
        }
        "maximum" => {
            signature.inputs = inputs.iter().map(|extents| rows(extents[0]).remove(0)).collect();
            signature.outputs = rows(width);
            signature.edges = Some(EdgeSignature { passed: rows(2 * width).remove(0) });
        }
        "./rows.wasm" | "./edges.wasm" => {
            let Some(&Value::Integer(out)) = find("out") else {
                return Err("out must be given".to_owned());
            };
            let out = u32::try_from(out).unwrap();
            if flag("scaled") {
                signature.parameters.push(parameter("scale", &[out], Initialiser::Constant(1.0)));
            }
            signature.outputs = rows(out);
            if kernel == "./edges.wasm" {
                signature.inputs = inputs.iter().map(|extents| rows(extents[0]).remove(0)).collect();
                signature.edges = Some(EdgeSignature { passed: rows(out).remove(0) });
            } else {
                signature.backward_needs = BackwardNeeds { inputs: true, outputs: false };
            }
        }
        "head" => {
            if flag("bias") {
                signature.parameters = vec![parameter("bias", &[width], Initialiser::Zeros)];
            }
            signature.outputs = rows(width);
            signature.loss = Some(TargetKind::Classes);
        }
        other => return deep_signature(other, inputs, attributes),
    }
    Ok(signature)
}

/// Returns the program of a GCN on 64 vertices, for tests.
pub(crate) fn gcn(layers: u32, hidden: u32, features: u32, classes: u32) -> Program {
    let model = Model::gcn(layers, hidden, 0.5, features, classes).unwrap();
    let shape = DataShape { rows: 64, features, classes, edge_features: 0, read_out: 0, group: 1 };
    Program::build(&model, shape, Rewrites::default(), &signature).unwrap()
}

/// Returns the signatures of the kernels of deep layers.
fn deep_signature(kernel: &str, inputs: &[Vec<u32>], attributes: &[Attribute]) -> Result<Signature, String> {
    let find = |name: &str| attributes.iter().find(|a| a.name == name).map(|a| &a.value);
    let whole = |name: &str| match find(name) {
        Some(&Value::Integer(value)) => Ok(u32::try_from(value).unwrap()),
        found => Err(format!("{kernel}: {name} is {found:?}")),
    };
    let flag = |name: &str| find(name) == Some(&Value::Flag(true));
    let width = inputs[0][0];
    let rows = |width| RowsSpec { name: "rows".into(), extents: vec![width] };
    let weights = |name: &str, shape: Vec<u32>, initialiser| {
        let name = name.to_owned();
        ParameterSpec { name, shape, initialiser }
    };
    let glorot = Initialiser::GlorotUniform;
    let needs = |inputs, outputs| BackwardNeeds { inputs, outputs };
    let mut found =
        Signature { inputs: inputs.iter().map(|of| rows(of[0])).collect(), ..Signature::default() };
    match kernel {
        "embedding" => {
            let out = whole("width")?;
            found.parameters.push(weights("weight", vec![whole("entries")?, out], glorot));
            if flag("positions") {
                found.parameters.push(weights("positions", vec![whole("group")?, out], glorot));
            }
            found.outputs = vec![rows(out)];
            found.backward_needs = needs(true, false);
        }
        "self-attention" => {
            whole("group")?;
            if !(width / 3).is_multiple_of(whole("heads")?) {
                return Err(format!("{kernel}: heads do not divide {}", width / 3));
            }
            found.outputs = vec![rows(width / 3)];
            found.backward_needs = needs(true, false);
        }
        "conv2d" => {
            let [height, columns, channels, size] =
                ["height", "width", "channels", "kernel"].map(|name| whole(name).unwrap());
            let [stride, padding, dilation] =
                ["stride", "padding", "dilation"].map(|name| whole(name).unwrap());
            let along = |extent| (extent + 2 * padding - dilation * (size - 1) - 1) / stride + 1;
            let shape = vec![size * size * (width / height / columns), channels];
            found.parameters.push(weights("weight", shape, glorot));
            if flag("bias") {
                found.parameters.push(weights("bias", vec![channels], Initialiser::Zeros));
            }
            found.outputs = vec![rows(along(height) * along(columns) * channels)];
            found.backward_needs = needs(true, find("activation") != Some(&Value::Text("identity".into())));
        }
        "pool2d" => {
            let [height, columns, window, stride] =
                ["height", "width", "window", "stride"].map(|name| whole(name).unwrap());
            let along = |extent| (extent - window) / stride + 1;
            found.outputs = vec![rows(along(height) * along(columns) * (width / height / columns))];
            found.backward_needs = needs(true, false);
        }
        "concat" => found.outputs = vec![rows(inputs.iter().map(|of| of[0]).sum())],
        "product" => {
            found.outputs = vec![rows(width)];
            found.backward_needs = needs(true, false);
        }
        "slice" => found.outputs = vec![rows(whole("count")?)],
        "./two.wasm" => {
            found.outputs = vec![rows(whole("out")?)];
            found.backward_needs = needs(true, false);
        }
        other => return Err(format!("no kernel {other}")),
    }
    Ok(found)
}

/// Returns the program of a random graph model.
pub(crate) fn random(random: &mut Random) -> Program {
    let mut text = String::from("hidden = 4\n");
    let count = 1 + random.below(5);
    for at in 0..count {
        let anywhere = ["gcn", "sage", "gin", "sgc", "linear", "gat", "gatv2", "./rows.wasm", "./edges.wasm"];
        let kinds = [&anywhere[..], &["appnp", "linear"]].concat();
        let kind = kinds[random.below(if at == 0 { 9 } else { 11 }) as usize];
        text += &format!("[[layers]]\nkernel = \"{kind}\"\nbias = {}\n", random.below(2) == 0);
        if kind == "appnp" {
            text = text.replace("bias = true\n", "").replace("bias = false\n", "");
            text += &format!("hops = {}\ndropout = {}\n", 1 + random.below(3), random.below(2) as f32 / 2.0);
        }
        if kind == "gin" {
            text += &format!("train_epsilon = {}\n", random.below(2) == 0);
        }
        if kind == "sage" {
            text += &format!("aggregator = \"{}\"\n", ["mean", "max"][random.below(2) as usize]);
            text += &format!("dropout = {}\n", random.below(2) as f32 / 2.0);
        }
        if kind.starts_with("gat") {
            text += &format!("heads = 2\naverage = {}\n", random.below(2) == 0);
        }
        if kind.ends_with(".wasm") {
            let scaled = random.below(2) == 0;
            text += &format!("width = 4\nattributes = {{ out = 4, scaled = {scaled} }}\n");
            text += &format!("dropout = {}\n", random.below(2) as f32 / 2.0);
        }
        if kind == "./edges.wasm" {
            text += &format!("on = \"edges\"\nself_loops = {}\n", random.below(2) == 0);
        }
        if at > 0 && kind == "linear" && random.below(2) == 0 {
            text += "jumping = \"concat\"\n";
        }
        if at > 0 && at + 1 < count {
            text += &format!("residual = {}\n", random.below(2) == 0);
        }
        text +=
            &format!("norm = \"{}\"\n", ["none", "layer", "l2", "batch", "pair"][random.below(5) as usize]);
    }
    if random.below(4) == 0 {
        let by = ["mean", "sum", "max"][random.below(3) as usize];
        text += &format!("[[layers]]\nkernel = \"readout\"\nreadout = \"{by}\"\ndropout = 0.5\n");
        text += "[[layers]]\nkernel = \"linear\"\nnorm = \"none\"\n";
    }
    let settings = ModelSettings::parse(&text, "m.toml").unwrap();
    let features = 9;
    let classes = 4;
    let task = if random.below(4) == 0 { TaskType::LinkPrediction } else { TaskType::Classification };
    let model = Model::resolve(&settings, features, classes, task).unwrap_or_else(|e| panic!("{text}: {e}"));
    let shape = DataShape { rows: 64, features, classes, edge_features: 0, read_out: 0, group: 1 };
    let constant = model.constant_gather().is_some() && random.below(2) == 0;
    let rewrites = Rewrites { gathered_features: constant, aggregate_first: random.next() & !1 };
    Program::build(&model, shape, rewrites, &signature).unwrap_or_else(|e| panic!("{text}: {e}"))
}

pub(crate) fn deep_model(text: &str, features: u32, classes: u32) -> eciton_recipe::Result<Model> {
    Model::resolve(&ModelSettings::parse(text, "m.toml")?, features, classes, TaskType::Classification)
}

/// Returns the settings text of a random list of layers that name their inputs. The last layers
/// concatenate all rows that no layer reads.
fn random_graph(random: &mut Random) -> String {
    const IMAGE: u32 = 4;
    let mut text = String::from("hidden = 4\n");
    // (name, columns, whether it is read)
    let mut made: Vec<(String, u32, bool)> = Vec::new();
    let count = 2 + random.below(12);
    for at in 0..count {
        let name = format!("l{at}");
        let mut pick = |random: &mut Random| match random.below(made.len() as u64 + 1) as usize {
            0 => ("features".to_owned(), 16),
            chosen => {
                made[chosen - 1].2 = true;
                (made[chosen - 1].0.clone(), made[chosen - 1].1)
            }
        };
        let (one, width) = pick(random);
        let kinds = [
            "linear",
            "gcn",
            "sage",
            "gin",
            "gat",
            "activate",
            "normalise",
            "self-attention",
            "transformer",
            "conv2d",
            "pool2d",
            "concat",
            "product",
            "sum",
            "slice",
        ];
        let kind = kinds[random.below(kinds.len() as u64) as usize];
        let is_image = width.is_multiple_of(IMAGE);
        let (kind, more, inputs, out) = match kind {
            "gat" => ("gat", "heads = 2\n".to_owned(), vec![one], 4),
            "activate" => ("activate", "activation = \"silu\"\n".to_owned(), vec![one], width),
            "normalise" => ("normalise", "norm = \"rms\"\n".to_owned(), vec![one], width),
            "self-attention" => {
                ("self-attention", format!("heads = 1\nwidth = {width}\ncausal = true\n"), vec![one], width)
            }
            "transformer" => {
                ("transformer", "heads = 1\nhidden = 3\ndropout = 0.1\n".to_owned(), vec![one], width)
            }
            "conv2d" if is_image => {
                let more =
                    format!("image = [2, 2, {}]\nkernel_size = 3\npadding = 1\nchannels = 2\n", width / 4);
                ("conv2d", more, vec![one], 8)
            }
            "pool2d" if is_image => {
                ("pool2d", format!("image = [2, 2, {}]\n", width / 4), vec![one], width / 4)
            }
            "concat" => {
                let (other, more) = pick(random);
                ("concat", String::new(), vec![one, other], width + more)
            }
            "product" | "sum" => (kind, String::new(), vec![one.clone(), one], width),
            "slice" => ("slice", format!("start = {}\ncount = 1\n", width - 1), vec![one], 1),
            "gcn" | "sage" | "gin" => (kind, format!("bias = {}\n", random.below(2) == 0), vec![one], 4),
            _ => ("linear", "activation = \"gelu\"\n".to_owned(), vec![one], 4),
        };
        let inputs: Vec<String> = inputs.iter().map(|name| format!("\"{name}\"")).collect();
        let (out, more) = match (kind, made.is_empty()) {
            // `image` flows: what is said must be what it is, which only features and flat rows leave open.
            ("conv2d" | "pool2d", false) if inputs[0] != "\"features\"" => (4, String::new()),
            _ => (out, more),
        };
        let kind = if more.is_empty() && matches!(kind, "conv2d" | "pool2d") { "linear" } else { kind };
        text += &format!(
            "[[layers]]\nkernel = \"{kind}\"\nname = \"{name}\"\ninputs = [{}]\n{more}",
            inputs.join(", ")
        );
        if random.below(3) == 0 && !matches!(kind, "transformer" | "concat" | "product" | "sum") {
            text += &format!(
                "norm = \"{}\"\n",
                ["layer", "l2", "batch", "pair", "rms"][random.below(5) as usize]
            )
            .replace("norm = \"", if more.contains("norm") { "# \"" } else { "norm = \"" });
        }
        made.push((name, out, false));
    }
    let left: Vec<String> =
        made.iter().filter(|(_, _, read)| !read).map(|(name, _, _)| format!("\"{name}\"")).collect();
    if left.len() > 1 {
        text += &format!("[[layers]]\nkernel = \"concat\"\nname = \"all\"\ninputs = [{}]\n", left.join(", "));
    }
    text + "[[layers]]\nkernel = \"linear\"\n"
}

/// Returns the program of a random list of layers that name their inputs.
pub(crate) fn random_deep(random: &mut Random) -> Program {
    let text = random_graph(random);
    let model = deep_model(&text, 16, 3).unwrap_or_else(|error| panic!("{text}: {error}"));
    let shape = DataShape { rows: 64, features: 16, classes: 3, edge_features: 0, read_out: 0, group: 4 };
    let rewrites = Rewrites { gathered_features: false, aggregate_first: random.next() & !1 };
    Program::build(&model, shape, rewrites, &signature).unwrap_or_else(|error| panic!("{text}: {error}"))
}
