//! Compares models in strips with the whole models, by an interpreter of their layers.

use super::*;
use eciton_recipe::TaskType;
use eciton_recipe::model::{
    Activation, DeepSettings, LayerKind, LayerSettings, Layers, Model, ModelSettings, Source,
};

/// Returns model settings with the layers of a chain, followed by a `linear` layer.
fn settings(chain: &Chain) -> ModelSettings {
    let mut layers: Vec<LayerSettings> = chain.steps().iter().map(written).collect();
    layers.push(LayerSettings::with_kernel("linear"));
    ModelSettings { layers: Layers::List(layers), ..ModelSettings::default() }
}

fn written(step: &Step) -> LayerSettings {
    let image = Some(step.image());
    match *step {
        Step::Conv(conv) => LayerSettings {
            activation: Some(Activation::Relu),
            deep: DeepSettings {
                image,
                channels: Some(conv.channels),
                kernel_size: Some(conv.size),
                stride: Some(conv.stride),
                padding: Some(conv.padding),
                dilation: Some(conv.dilation),
                ..DeepSettings::default()
            },
            ..LayerSettings::with_kernel("conv2d")
        },
        Step::Pool(pool) => LayerSettings {
            deep: DeepSettings {
                image,
                window: Some(pool.window),
                stride: Some(pool.stride),
                pool: Some(pool.by),
                ..DeepSettings::default()
            },
            ..LayerSettings::with_kernel("pool2d")
        },
    }
}

fn resolved(settings: &ModelSettings, image: Image) -> Model {
    let features = image.values().unwrap();
    Model::resolve(settings, features, 2, TaskType::Classification).unwrap()
}

/// Returns a weight of a layer of the whole model. Weights are whole numbers, so that sums are
/// exact.
fn weight(origin: usize, at: usize) -> f64 {
    ((origin * 31 + at * 7) % 11) as f64 - 5.0
}

fn convolved(step: &Step, origin: usize, x: &[f64]) -> Vec<f64> {
    let Image(height, width, channels) = step.image();
    let (_, stride, padding) = step.window();
    let (size, spaced) = match step {
        Step::Conv(conv) => (conv.size, conv.dilation),
        Step::Pool(pool) => (pool.window, 1),
    };
    let Image(rows, columns, made) = Chain::new(vec![*step]).unwrap().image(1);
    let mut out = Vec::new();
    for row in 0..rows {
        for column in 0..columns {
            for channel in 0..made {
                let (mut sum, mut most) = (f64::from(channel), f64::NEG_INFINITY);
                for (down, across) in (0..size).flat_map(|down| (0..size).map(move |across| (down, across))) {
                    let y = (row * stride + down * spaced).checked_sub(padding).filter(|&y| y < height);
                    let x_at =
                        (column * stride + across * spaced).checked_sub(padding).filter(|&x| x < width);
                    let (Some(y), Some(x_at)) = (y, x_at) else { continue };
                    let pixel = |c: u32| x[((y * width + x_at) * channels + c) as usize];
                    match step {
                        Step::Conv(_) => {
                            for c in 0..channels {
                                let at = ((down * size + across) * channels + c) * made + channel;
                                sum += pixel(c) * weight(origin, at as usize);
                            }
                        }
                        Step::Pool(_) => most = most.max(pixel(channel)),
                    }
                }
                // Values stay small, so that sums stay exact.
                out.push(if matches!(step, Step::Conv(_)) { sum.max(0.0) % 97.0 } else { most });
            }
        }
    }
    out
}

/// Returns the output that the last layer before the `linear` one computes from an image.
fn made(model: &Model, origins: &[Option<usize>], image: &[f64]) -> Vec<f64> {
    let mut values: Vec<Vec<f64>> = Vec::new();
    for (at, origin) in origins.iter().enumerate().take(model.layers.len() - 1) {
        let read: Vec<&[f64]> = model
            .sources(at)
            .iter()
            .map(|source| match source {
                Source::Features => image,
                Source::Layer(layer) => &values[*layer as usize][..],
            })
            .collect();
        values.push(match model.layers[at].kind {
            LayerKind::Conv2d(conv) => convolved(&Step::Conv(conv), origin.unwrap(), read[0]),
            LayerKind::Pool2d(pool) => convolved(&Step::Pool(pool), 0, read[0]),
            LayerKind::Concat => read.concat(),
            LayerKind::Slice(slice) => {
                read[0][slice.start as usize..(slice.start + slice.count) as usize].to_vec()
            }
            ref other => panic!("{other:?}"),
        });
    }
    values.pop().unwrap()
}

/// Returns the strip number in a layer's name, which follows the layer number.
fn strip_of(name: &str) -> Option<usize> {
    name.strip_prefix("strip-")?.split('-').nth(1)?.parse().ok()
}

/// Returns the number of values that layers of one strip read from layers of another strip.
fn exchanged(model: &Model) -> u64 {
    let name = |layer: usize| model.layers[layer].name.as_deref().and_then(strip_of);
    let mut values = 0;
    for at in 0..model.layers.len() {
        for source in model.sources(at) {
            let Source::Layer(read) = source else { continue };
            let (Some(own), Some(other)) = (name(at), name(read as usize)) else { continue };
            if own != other {
                let part = matches!(model.layers[at].kind, LayerKind::Slice(_));
                values += u64::from(model.layers[if part { at } else { read as usize }].width);
            }
        }
    }
    values
}

#[test]
fn models_in_strips_make_the_same_values_and_exchange_what_the_plan_says() {
    let seed = 9;
    println!("seed {seed}");
    let mut draws = Random::new(seed);
    let (mut cases, mut several) = (0, 0);
    while cases < 200 {
        let drawn = drawn(&mut draws, 5);
        let whole = settings(&drawn);
        let model = resolved(&whole, drawn.image(0));
        let Ok(split) = Splittable::from_model(&model) else { continue };
        let chain = &split.chain;
        let strips = 2 + draws.below32(4);
        let speeds = (0..strips).map(|_| f64::from(1 + draws.below32(3))).collect();
        let workers = Workers { flops_per_s: speeds, share_image: true, ..Workers::alike(1, 1.0, 1e9) };
        let blocks = cut_of(draws.below32(1 << (chain.len() - 1)), chain.len());
        let empty = |block: &Range<usize>| workers.shares(chain.rows(block.end)).iter().any(Range::is_empty);
        if blocks.iter().any(empty) {
            assert!(Strips::new(&whole, &model, (&split, &workers), &blocks).is_err());
            continue;
        }
        let cut = timed(chain, &workers, blocks.clone());
        let made_of = Strips::new(&whole, &model, (&split, &workers), &blocks).unwrap();
        let in_strips = resolved(&made_of.settings, drawn.image(0));
        let values: Vec<f64> = (0..model.features).map(|_| f64::from(draws.below32(9)) - 4.0).collect();
        let origins: Vec<Option<usize>> = (0..model.layers.len()).map(Some).collect();
        let (one, two) = (made(&model, &origins, &values), made(&in_strips, &made_of.origins, &values));
        assert_eq!(one, two, "{:?} {blocks:?} {strips}", split.layers);
        assert_eq!(made_of.halo_bytes, cut.halo_bytes);
        assert_eq!(4 * exchanged(&in_strips), cut.halo_bytes, "{blocks:?} {strips}");
        several += usize::from(cut.halo_bytes > 0);
        cases += 1;
    }
    assert!(several > 40, "{several}");
}

#[test]
fn parameters_have_the_names_of_the_whole_model() {
    let chain = Chain::new(vec![
        Step::Conv(Conv2d {
            image: Image(8, 8, 1),
            channels: 2,
            size: 3,
            stride: 1,
            padding: 1,
            dilation: 1,
        }),
        Step::Pool(Pool2d { image: Image(8, 8, 2), window: 2, stride: 2, by: PoolBy::Max }),
    ]);
    let whole = settings(&chain.unwrap());
    let model = resolved(&whole, Image(8, 8, 1));
    let split = Splittable::from_model(&model).unwrap();
    let workers = Workers::alike(2, 1.0, 1.0);
    let strips = Strips::new(&whole, &model, (&split, &workers), std::slice::from_ref(&(0..2))).unwrap();
    let Layers::List(layers) = &strips.settings.layers else { panic!() };
    let convolutions: Vec<usize> = (0..layers.len()).filter(|&at| layers[at].kernel == "conv2d").collect();
    assert_eq!(convolutions.len(), 2);
    for at in convolutions {
        assert_eq!(strips.original(&format!("layers.{at}.bias")).as_deref(), Some("layers.0.bias"));
    }
    let last = layers.len() - 1;
    assert_eq!(strips.original(&format!("layers.{last}.weight")).as_deref(), Some("layers.2.weight"));
    for wrong in ["layers.0.weight", "layers.99.weight", "layers", "other.0.x", "layers.x.y"] {
        assert_eq!(strips.original(wrong), None);
    }
}

#[test]
fn what_cannot_be_split_is_refused() {
    let image = Image(8, 8, 1);
    let conv = Conv2d { image, channels: 2, size: 3, stride: 2, padding: 1, dilation: 1 };
    // A stride that no padding is a multiple of.
    let whole = settings(&Chain::new(vec![Step::Conv(conv)]).unwrap());
    let text = Splittable::from_model(&resolved(&whole, image)).unwrap_err().to_string();
    assert!(text.contains("no layer whose image rows can be split"), "{text}");
    let plain = ModelSettings::default();
    assert!(Splittable::from_model(&resolved(&plain, image)).is_err());
    let whole = settings(&Chain::new(vec![Step::Conv(Conv2d { stride: 1, ..conv })]).unwrap());
    let model = resolved(&whole, image);
    let split = Splittable::from_model(&model).unwrap();
    let text =
        Strips::new(&whole, &model, (&split, &Workers::alike(9, 1.0, 1.0)), std::slice::from_ref(&(0..1)))
            .unwrap_err();
    assert!(text.to_string().contains("9 strips of an image of 8 rows"), "{text}");
}
