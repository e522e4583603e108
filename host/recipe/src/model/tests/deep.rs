//! Tests of layers for images and sequences, and of layers with named inputs.

use super::*;

/// Returns settings with a list of layers of these lines.
fn list(layers: &[&str]) -> String {
    layers.iter().map(|layer| format!("[[layers]]\nkernel = {layer}\n")).collect()
}

fn of_image(layers: &[&str]) -> Result<Model, Error> {
    Model::resolve(&ModelSettings::parse(&list(layers), "m.toml")?, 48, 3, TaskType::Classification)
}

fn refused(layers: &[&str]) -> String {
    of_image(layers).unwrap_err().to_string()
}

#[test]
fn what_layers_read_is_found_by_name() {
    let model = of_image(&[
        "\"linear\"\nname = \"a\"",
        "\"gcn\"\nname = \"b\"",
        "\"sum\"\nname = \"c\"\ninputs = [\"a\", \"b\"]",
        "\"linear\"\ninputs = \"c\"",
    ])
    .unwrap();
    let sources: Vec<Vec<Source>> = (0..4).map(|at| model.sources(at)).collect();
    let of = Source::Layer;
    let wanted = [vec![Source::Features], vec![of(0)], vec![of(0), of(1)], vec![of(2)]];
    assert_eq!(sources, wanted);
    let written = toml::to_string(&model).unwrap();
    assert_eq!(toml::from_str::<Model>(&written).unwrap(), model, "{written}");
}

#[test]
fn deep_layers_are_written_as_they_were_read() {
    let text = "[model]\nhidden = 8\nactivation = \"gelu\"\nnorm = \"rms\"\n\
                [[model.layers]]\nkernel = \"conv2d\"\nname = \"stem\"\nimage = [4, 4, 3]\nchannels = 5\n\
                kernel_size = 2\nstride = 1\npadding = 1\ndilation = 2\n\
                [[model.layers]]\nkernel = \"pool2d\"\nwindow = 2\nstride = 1\npool = \"mean\"\nname = \"pooled\"\n\
                [[model.layers]]\nkernel = \"slice\"\nstart = 3\ncount = 1\ninputs = [\"features\"]\n\
                [[model.layers]]\nkernel = \"embedding\"\nentries = 7\npositions = true\nwidth = 6\n\
                [[model.layers]]\nkernel = \"transformer\"\nheads = 3\nhidden = 9\ncausal = true\nname = \"block\"\n\
                [[model.layers]]\nkernel = \"concat\"\ninputs = [\"pooled\", \"block\"]\n\
                [[model.layers]]\nkernel = \"linear\"\n";
    let config = crate::Config::parse(text, "r.toml").unwrap();
    let written = config.to_toml().unwrap();
    assert_eq!(crate::Config::parse(&written, "again").unwrap(), config, "{written}");
    let model = Model::resolve(&config.model, 48, 3, TaskType::Classification).unwrap();
    let widths: Vec<u32> = model.layers.iter().map(|layer| layer.width).collect();
    assert_eq!(widths, [4 * 4 * 5, 3 * 3 * 5, 1, 6, 6, 51, 3]);
    let written = toml::to_string(&model).unwrap();
    assert_eq!(toml::from_str::<Model>(&written).unwrap(), model, "{written}");
}

#[test]
fn names_that_do_not_fit_are_shown_where_they_stand() {
    let cases = [
        (&["\"linear\"\nname = \"a\"\ninputs = [\"a\"]", "\"gcn\""][..], "which is this layer itself"),
        (
            &["\"linear\"\ninputs = [\"later\"]", "\"gcn\"\nname = \"later\""],
            "which is layer 1 and comes later, but must be the name of an earlier layer: move layer 1 before this one",
        ),
        (
            &["\"linear\"\nname = \"a\"", "\"gcn\"\ninputs = [\"b\"]"],
            "\"b\", which is not the name of a layer",
        ),
        (&["\"linear\"\nname = \"a\"", "\"gcn\"\nname = \"a\"", "\"gcn\""], "also the name of layer 0"),
        (
            &["\"linear\"\nname = \"features\"", "\"gcn\""],
            "not \"features\", which names the data set's features",
        ),
        (&["\"linear\"\nname = \"a b\"", "\"gcn\""], "1 to 64 letters"),
        (
            &["\"linear\"\nname = \"a\"", "\"linear\"\ninputs = [\"features\"]"],
            "\"a\", which no later layer reads",
        ),
        (&["\"linear\"", "\"linear\"\ninputs = [\"features\"]"], "the next layer reads other layers"),
    ];
    for (layers, words) in cases {
        let found = refused(layers);
        assert!(found.contains(words) && found.contains("at m.toml:"), "{words}: {found}");
    }
    let found = refused(&["\"linear\"\nname = \"a\"", "\"gcn\"\ninputs = [\"b\"]"]);
    assert!(found.contains("m.toml:6:10") && found.contains("layers[1].inputs"), "{found}");
    for bad in ["3", "[]", "[1]", "[\"a\", 2]"] {
        let found = refused(&["\"linear\"", &format!("\"gcn\"\ninputs = {bad}")]);
        assert!(found.contains("a list of names"), "{found}");
    }
}

#[test]
fn shapes_that_do_not_fit_say_what_would() {
    let image = "\"conv2d\"\nimage = [4, 4, 3]\nchannels = 2";
    let named = format!("{image}\nname = \"c\"");
    let cases: &[(&[&str], &str)] = &[
        (&["\"conv2d\"", "\"linear\""], "[height, width, channels] of the 48 columns of the features"),
        (&["\"conv2d\"\nimage = [4, 4, 4]", "\"linear\""], "`image` is [4, 4, 4], of 64 values"),
        (&[image, "\"pool2d\"\nimage = [1, 4, 2]", "\"linear\""], "removed, or [2, 2, 2]"),
        (&[image, "\"conv2d\"\nkernel_size = 3", "\"linear\""], "`kernel_size` is 3 with stride 1"),
        (&[image, "\"pool2d\"\nwindow = 3", "\"linear\""], "one that fits into the image, [2, 2, 2]"),
        (&[image, "\"linear\"", "\"pool2d\"", "\"linear\""], "`image` is left out"),
        (&["\"conv2d\"\nimage = [4, 4, 3]\nwidth = 9", "\"linear\""], "computed from the layer's inputs"),
        (&["\"slice\"\nstart = 40\ncount = 9", "\"linear\""], "9, from column 40"),
        (&["\"slice\"", "\"linear\""], "`count` is left out"),
        (&["\"sum\"", "\"linear\""], "at least two layers, which `sum` joins"),
        (&[&named, "\"product\"\ninputs = [\"c\"]", "\"linear\""], "two layers, whose values"),
        (
            &[&named, "\"product\"\ninputs = [\"c\", \"features\"]", "\"linear\""],
            "of 8 of \"c\", 48 of the features columns",
        ),
        (&[&named, "\"linear\"\ninputs = [\"c\", \"features\"]", "\"linear\""], "put a `concat`, `sum` or"),
        (&["\"embedding\"", "\"linear\""], "the 48 columns of the features, but must be \"features\" of one"),
        (&["\"slice\"\ncount = 1", "\"embedding\"\ndropout = 0.5", "\"linear\""], "indices of table rows"),
        (&["\"transformer\"\nheads = 5", "\"linear\""], "a divisor of the layer's width, 48"),
        (&["\"transformer\"\nnorm = \"batch\"", "\"linear\""], "normalise each row separately"),
        (&["\"linear\"", "\"transformer\"\nresidual = true", "\"linear\""], "always adds its input"),
        (&["\"normalise\"\nnorm = \"none\"", "\"linear\""], "has no other function"),
        (&["\"gcn\"\ncausal = true"], "belongs to self-attention and transformer"),
        (&["\"activate\"\nbias = true", "\"linear\""], "`activate` layers have no bias"),
        (&["\"concat\"\ninputs = [\"features\", \"features\"]"], "3, the number of classes"),
    ];
    for (layers, words) in cases {
        let found = refused(layers);
        assert!(found.contains(words), "{words}: {found}");
    }
}

#[test]
fn widths_and_what_follows_are_those_of_the_kind() {
    let model = of_image(&[
        "\"slice\"\ncount = 1",
        "\"embedding\"\nname = \"words\"",
        "\"self-attention\"\nname = \"seen\"",
        "\"sum\"\ninputs = [\"words\", \"seen\"]",
        "\"transformer\"",
        "\"linear\"",
    ])
    .unwrap();
    let widths: Vec<u32> = model.layers.iter().map(|layer| layer.width).collect();
    assert_eq!(widths, [1, 16, 16, 16, 16, 3]);
    let dropouts: Vec<f64> = model.layers.iter().map(|layer| layer.dropout).collect();
    assert_eq!(dropouts, [0.0, 0.0, 0.5, 0.0, 0.5, 0.5]);
    assert!(model.layers.iter().all(|layer| layer.activation == Activation::Identity));
    assert_eq!(model.layers[1].kind, LayerKind::Embedding(Embedding { entries: 3, positions: false }));
    let attention = SelfAttention { heads: 8, causal: false };
    let (before, between) = (Norm::Layer, Activation::Gelu);
    let block = Transformer { attention, hidden: 64, before, between };
    assert_eq!(model.layers[4].kind, LayerKind::Transformer(block));
    // A sum of scores is of scores.
    let model = of_image(&[
        "\"linear\"\nname = \"a\"",
        "\"gcn\"\nname = \"b\"\ninputs = [\"features\"]",
        "\"sum\"\ninputs = [\"a\", \"b\"]",
    ])
    .unwrap();
    assert!(model.layers.iter().all(|layer| (layer.width, layer.activation) == (3, Activation::Identity)));
}

#[test]
fn rows_of_graphs_and_of_vertices_do_not_meet() {
    let settings = |text: &str| ModelSettings::parse(text, "m.toml").unwrap();
    let text = list(&[
        "\"gcn\"\nname = \"a\"",
        "\"readout\"\nname = \"b\"",
        "\"sum\"\ninputs = [\"a\", \"b\"]",
        "\"linear\"",
    ]);
    let error = Model::resolve(&settings(&text), 5, 3, TaskType::Classification).unwrap_err().to_string();
    assert!(error.contains("all before a readout, or all after a readout"), "{error}");
    // Another branch may gather behind a readout in the list.
    let text = list(&[
        "\"gcn\"\nname = \"a\"",
        "\"readout\"\nname = \"b\"",
        "\"gcn\"\nname = \"c\"\ninputs = [\"a\"]",
        "\"readout\"\nname = \"d\"",
        "\"concat\"\ninputs = [\"b\", \"d\"]",
        "\"linear\"",
    ]);
    assert!(Model::resolve(&settings(&text), 5, 3, TaskType::Classification).is_ok());
}
