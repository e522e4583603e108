//! Drawing of a model's layers from top to bottom, in DOT (Graphviz) or SVG.
//!
//! In the SVG, a layer is below all layers that it reads. The rank of a layer is the length of the
//! longest path to it from the features. An edge that crosses ranks is bent at a point in each of
//! them. Within a rank, boxes and points are ordered by the mean position of their neighbours
//! (Sugiyama, Tagawa and Toda 1981).

use std::fmt::Write as _;

use eciton_recipe::Source;
use eciton_train::LayerPlan;

/// Width and height of a layer's box, in pixels.
const BOX: (f64, f64) = (190.0, 42.0);
/// Horizontal and vertical gap between the boxes of layers, in pixels.
const ROOM: (f64, f64) = (24.0, 34.0);
/// Number of passes that order the boxes within their ranks. Passes alternate between downward and
/// upward.
const PASSES: usize = 8;

/// Graph of a model. Node 0 represents the features, and node 1 + i represents layer i.
struct Graph {
    /// Title and shape of each node, which are printed as two lines of text.
    labels: Vec<[String; 2]>,
    /// For each node, the indices of the nodes that it reads.
    reads: Vec<Vec<usize>>,
}

impl Graph {
    fn from_layers(layers: &[LayerPlan]) -> Self {
        let features = layers.iter().find_map(|layer| {
            let first = layer.inputs.contains(&Source::Features);
            first.then_some(layer.widths.0)
        });
        let columns = features.map_or_else(String::new, |columns| format!("{columns} columns"));
        let mut labels = vec![["features".to_owned(), columns]];
        let mut reads = vec![Vec::new()];
        for (at, layer) in layers.iter().enumerate() {
            labels.push([title(at, layer), shape(layer)]);
            let node = |source: &Source| match source {
                Source::Features => 0,
                Source::Layer(layer) => 1 + *layer as usize,
            };
            // A resolved layer reads earlier layers only.
            reads.push(layer.inputs.iter().map(node).filter(|&node| node <= at).collect());
        }
        Self { labels, reads }
    }

    /// Returns the edges as pairs of indices. Each leads from the node that is read to the node
    /// that reads it.
    fn edges(&self) -> impl Iterator<Item = (usize, usize)> {
        let of =
            |(to, reads): (usize, &Vec<usize>)| reads.iter().map(move |&from| (from, to)).collect::<Vec<_>>();
        self.reads.iter().enumerate().flat_map(of)
    }
}

/// Returns the title of a layer, which has its index, kind, name and loss weight. An example is `2
/// sum, both`.
pub(super) fn title(at: usize, layer: &LayerPlan) -> String {
    let name = layer.name.as_ref().map_or_else(String::new, |name| format!(", {name}"));
    let loss = layer.loss_weight.map_or_else(String::new, |weight| format!(", loss x {weight}"));
    format!("{at} {}{name}{loss}", layer.kind)
}

/// Returns the input and output width of a layer, for instance `64 to 32`. For images, the shape of
/// the output is added.
pub(super) fn shape(layer: &LayerPlan) -> String {
    let (before, after) = layer.widths;
    match layer.image {
        Some(image) => format!("{before} to {after} = {} x {} x {}", image.0, image.1, image.2),
        None => format!("{before} to {after}"),
    }
}

/// Returns a drawing of the layers in DOT, the format of Graphviz.
pub(super) fn dot(layers: &[LayerPlan]) -> String {
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    let graph = Graph::from_layers(layers);
    let mut text = String::from("digraph model {\n  node [shape=box, fontname=\"sans-serif\"];\n");
    for (at, [title, shape]) in graph.labels.iter().enumerate() {
        let _ = writeln!(text, "  n{at} [label=\"{}\\n{}\"];", quoted(title), quoted(shape));
    }
    for (from, to) in graph.edges() {
        let _ = writeln!(text, "  n{from} -> n{to};");
    }
    for (at, layer) in layers.iter().enumerate() {
        if let Some(of) = layer.weights_of {
            let _ = writeln!(text, "  n{} -> n{} [style=dashed, label=\"weight\"];", of + 1, at + 1);
        }
    }
    text + "}\n"
}

/// Positions of the boxes, and of the points where edges cross ranks.
struct Layout {
    /// Rank and horizontal position of each point, where position 0 is in the middle. The first
    /// points are the boxes of the nodes.
    points: Vec<(usize, f64)>,
    /// Indices of the points on the path of each edge, from the upper to the lower box.
    paths: Vec<Vec<usize>>,
    /// Number of ranks (horizontal lines of boxes).
    ranks: usize,
    /// Maximum number of points in a rank.
    widest: usize,
}

impl Layout {
    fn from_graph(graph: &Graph) -> Self {
        let mut rank = vec![0usize; graph.reads.len()];
        for (at, reads) in graph.reads.iter().enumerate() {
            rank[at] = reads.iter().map(|&from| rank[from] + 1).max().unwrap_or(0);
        }
        let mut paths = Vec::new();
        for (from, to) in graph.edges() {
            let mut path = vec![from];
            for between in rank[from] + 1..rank[to] {
                rank.push(between);
                path.push(rank.len() - 1);
            }
            path.push(to);
            paths.push(path);
        }
        let ranks = rank.iter().max().map_or(0, |&last| last + 1);
        let mut rows: Vec<Vec<usize>> = vec![Vec::new(); ranks];
        for (point, &rank) in rank.iter().enumerate() {
            rows[rank].push(point);
        }
        let mut near: Vec<Vec<usize>> = vec![Vec::new(); rank.len()];
        for pair in paths.iter().flat_map(|path| path.windows(2)) {
            near[pair[0]].push(pair[1]);
            near[pair[1]].push(pair[0]);
        }
        let mut place = vec![0.0; rank.len()];
        let set = |row: &[usize], place: &mut Vec<f64>| {
            for (at, &point) in row.iter().enumerate() {
                place[point] = at as f64 - (row.len() - 1) as f64 / 2.0;
            }
        };
        rows.iter().for_each(|row| set(row, &mut place));
        for pass in 0..PASSES {
            for at in 0..ranks {
                let at = if pass % 2 == 0 { at } else { ranks - 1 - at };
                // A pass down reads the positions of the rank above, a pass up those of the rank
                // below.
                let side = |point: usize, other: usize| match pass % 2 {
                    0 => rank[other] < rank[point],
                    _ => rank[other] > rank[point],
                };
                let mean = |point: usize| {
                    let beside: Vec<f64> = near[point]
                        .iter()
                        .filter(|&&other| side(point, other))
                        .map(|&other| place[other])
                        .collect();
                    if beside.is_empty() {
                        place[point]
                    } else {
                        beside.iter().sum::<f64>() / beside.len() as f64
                    }
                };
                let mut keyed: Vec<(f64, usize)> =
                    rows[at].iter().map(|&point| (mean(point), point)).collect();
                keyed.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
                rows[at] = keyed.into_iter().map(|(_, point)| point).collect();
                set(&rows[at], &mut place);
            }
        }
        let widest = rows.iter().map(Vec::len).max().unwrap_or(1);
        Self { points: rank.into_iter().zip(place).collect(), paths, ranks, widest }
    }

    /// Returns the coordinates of a point's centre, in pixels.
    fn at(&self, point: usize) -> (f64, f64) {
        let (rank, place) = self.points.get(point).copied().unwrap_or_default();
        let middle = self.width() / 2.0;
        (middle + place * (BOX.0 + ROOM.0), ROOM.1 / 2.0 + BOX.1 / 2.0 + rank as f64 * (BOX.1 + ROOM.1))
    }

    fn width(&self) -> f64 {
        self.widest as f64 * (BOX.0 + ROOM.0)
    }

    fn height(&self) -> f64 {
        self.ranks as f64 * (BOX.1 + ROOM.1)
    }
}

/// Returns a drawing of the layers in SVG.
pub(super) fn svg(layers: &[LayerPlan]) -> String {
    let escaped = |text: &str| {
        text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
    };
    let graph = Graph::from_layers(layers);
    let layout = Layout::from_graph(&graph);
    let (width, height) = (layout.width(), layout.height());
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} \
         {height:.0}\" font-family=\"sans-serif\" font-size=\"13\" text-anchor=\"middle\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" \
         orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#555555\"/></marker></defs>\n"
    );
    for path in &layout.paths {
        let points: Vec<(f64, f64)> = path.iter().map(|&point| layout.at(point)).collect();
        let last = points.len().saturating_sub(1);
        let mut line = String::new();
        for (at, pair) in points.windows(2).enumerate() {
            let (from, to) = (pair[0], pair[1]);
            let down = if at == 0 { from.1 + BOX.1 / 2.0 } else { from.1 };
            let up = if at + 1 == last { to.1 - BOX.1 / 2.0 } else { to.1 };
            let half = (down + up) / 2.0;
            if at == 0 {
                let _ = write!(line, "M{:.1} {down:.1}", from.0);
            }
            let _ = write!(line, "C{:.1} {half:.1} {:.1} {half:.1} {:.1} {up:.1}", from.0, to.0, to.0);
        }
        let _ =
            writeln!(text, "<path d=\"{line}\" fill=\"none\" stroke=\"#555555\" marker-end=\"url(#tip)\"/>");
    }
    for (at, [title, shape]) in graph.labels.iter().enumerate() {
        let (x, y) = layout.at(at);
        let fill = if at == 0 { "#eef2e6" } else { "#e8eef7" };
        let (left, top) = (x - BOX.0 / 2.0, y - BOX.1 / 2.0);
        let _ = writeln!(
            text,
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{}\" height=\"{}\" rx=\"5\" fill=\"{fill}\" stroke=\"#555555\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\">{}</text><text x=\"{x:.1}\" y=\"{:.1}\" fill=\"#555555\">{}</text>",
            BOX.0,
            BOX.1,
            y - 3.0,
            escaped(&cut(title)),
            y + 14.0,
            escaped(shape)
        );
    }
    text + "</svg>\n"
}

/// Returns a title, cut to the number of characters that fit into a box.
fn cut(title: &str) -> String {
    const MOST: usize = 26;
    match title.chars().count() > MOST {
        true => title.chars().take(MOST - 1).chain(['\u{2026}']).collect(),
        false => title.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use eciton_train::LayerFirst;

    fn layer(kind: &str, inputs: &[Source], widths: (u32, u32)) -> LayerPlan {
        LayerPlan {
            kind: kind.to_owned(),
            name: None,
            inputs: inputs.to_vec(),
            weights_of: None,
            loss_weight: None,
            widths,
            image: None,
            first: LayerFirst::Fixed,
        }
    }

    fn diamond() -> Vec<LayerPlan> {
        let of = Source::Layer;
        let mut layers = vec![
            layer("linear", &[Source::Features], (9, 4)),
            layer("a<\"b\\", &[of(0)], (4, 4)),
            layer("gcn", &[of(1)], (4, 4)),
            layer("concat", &[of(0), of(2), Source::Features], (17, 17)),
            layer("linear", &[of(3)], (17, 3)),
        ];
        layers[2].name = Some("near".to_owned());
        layers[4].weights_of = Some(0);
        layers
    }

    #[test]
    fn dot_has_each_layer_and_each_edge_once() {
        let text = dot(&diamond());
        assert_eq!(text.matches(" -> ").count(), 8);
        assert!(text.contains("n0 [label=\"features\\n9 columns\"];"), "{text}");
        assert!(text.contains("n2 [label=\"1 a<\\\"b\\\\\\n4 to 4\"];"), "{text}");
        assert!(text.contains("n3 [label=\"2 gcn, near\\n4 to 4\"];"), "{text}");
        assert!(text.contains("n1 -> n5 [style=dashed, label=\"weight\"];"), "{text}");
    }

    #[test]
    fn no_edge_passes_through_a_box() {
        let graph = Graph::from_layers(&diamond());
        let layout = Layout::from_graph(&graph);
        assert_eq!(layout.paths.len(), 7);
        for path in &layout.paths {
            let inner = &path[1..path.len() - 1];
            assert!(inner.iter().all(|&point| point >= graph.labels.len()), "{path:?}");
            assert!(path.windows(2).all(|two| layout.points[two[0]].0 + 1 == layout.points[two[1]].0));
        }
        let mut places: Vec<(usize, i64)> =
            layout.points.iter().map(|&(rank, place)| (rank, (place * 2.0) as i64)).collect();
        places.sort_unstable();
        assert!(places.windows(2).all(|two| two[0] != two[1]), "{places:?}");
    }

    #[test]
    fn svg_is_escaped_and_whole() {
        let text = svg(&diamond());
        assert!(text.starts_with("<svg") && text.ends_with("</svg>\n"));
        assert!(text.contains("1 a&lt;&quot;b\\"), "{text}");
        assert_eq!((text.matches("<rect x=").count(), text.matches("marker-end").count()), (6, 7));
        assert_eq!(text, svg(&diamond()));
        assert!(!svg(&[]).is_empty());
    }
}
