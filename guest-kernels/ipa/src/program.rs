//! Programs as rows have them, and the places where an instruction pointer can be after each step.

use eciton_sdk::{Error, Matrix, Result};

/// Numbers that an f32 tells apart.
pub(crate) const MOST_ENTRIES: u32 = 1 << 24;
/// Steps of a program at most.
const MOST_STEPS: u32 = 1 << 12;
/// Values of a node beside its tokens: successors if true and if false, the exit, steps.
pub(crate) const BESIDE: u32 = 4;

/// What a row holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) nodes: usize,
    /// Tokens of a node.
    pub(crate) tokens: usize,
    /// What tokens are below.
    pub(crate) entries: u32,
    /// Whether lines run one after the other, whatever the row says of successors and steps.
    pub(crate) in_order: bool,
}

/// A node of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) program: u32,
    pub(crate) node: u32,
}

/// Some programs.
#[derive(Debug)]
pub(crate) struct Programs {
    layout: Layout,
    /// By program, node and position.
    tokens: Vec<u32>,
    /// By program and node: successors if true and if false.
    next: Vec<[u32; 2]>,
    /// By program.
    exit: Vec<u32>,
    steps: Vec<u32>,
}

/// A whole number below a bound.
fn whole(value: f32, bound: u32, row: u32, node: usize, what: &str) -> Result<u32> {
    let number = value as u32;
    if number < bound && number as f32 == value {
        return Ok(number);
    }
    let found = if value.is_finite() { (value as i64).to_string() } else { "no number".to_owned() };
    Err(Error::Argument(format!(
        "ipa: {what} of row {row}, node {node} is {found}; whole numbers from 0 to {} are needed",
        bound - 1
    )))
}

impl Programs {
    /// Those of `count` rows from `start`.
    pub(crate) fn read(x: &Matrix, start: u32, count: u32, layout: Layout) -> Result<Self> {
        let values: Vec<f32> = x.read_rows(start, count)?;
        let Layout { nodes, tokens: length, entries, in_order } = layout;
        let each = length + BESIDE as usize;
        let mut all =
            Self { layout, tokens: Vec::new(), next: Vec::new(), exit: Vec::new(), steps: Vec::new() };
        for (row, program) in (start..).zip(values.chunks_exact(nodes * each)) {
            let (mut exit, mut steps) = (0, 0);
            for (at, node) in program.chunks_exact(each).enumerate() {
                let (tokens, beside) = node.split_at(length);
                for &token in tokens {
                    all.tokens.push(whole(token, entries, row, at, "a token")?);
                }
                let [yes, no] = [beside[0], beside[1]];
                let below = nodes as u32;
                let yes = whole(yes, below, row, at, "the successor if true")?;
                let no = whole(no, below, row, at, "the successor if false")?;
                if at == 0 {
                    exit = whole(beside[2], below, row, at, "the exit")?;
                    steps = whole(beside[3], MOST_STEPS + 1, row, at, "the number of steps")?;
                }
                let at = at as u32;
                all.next.push(match at {
                    _ if at == exit => [exit; 2],
                    _ if in_order => [(at + 1).min(exit); 2],
                    _ => [yes, no],
                });
            }
            all.exit.push(exit);
            all.steps.push(if in_order { exit } else { steps });
        }
        Ok(all)
    }

    pub(crate) fn count(&self) -> usize {
        self.exit.len()
    }

    pub(crate) fn exit(&self, program: u32) -> u32 {
        self.exit[program as usize]
    }

    pub(crate) fn steps(&self, program: u32) -> u32 {
        self.steps[program as usize]
    }

    pub(crate) fn most_steps(&self) -> u32 {
        self.steps.iter().copied().max().unwrap_or(0)
    }

    pub(crate) fn next(&self, place: Place) -> [u32; 2] {
        self.next[place.program as usize * self.layout.nodes + place.node as usize]
    }

    /// The tokens at a position of these places' lines.
    pub(crate) fn tokens(&self, places: &[Place], position: usize) -> Vec<u32> {
        let Layout { nodes, tokens, .. } = self.layout;
        let at = |p: &Place| (p.program as usize * nodes + p.node as usize) * tokens + position;
        places.iter().map(|place| self.tokens[at(place)]).collect()
    }

    /// Appends all tokens, by program, node and position.
    pub(crate) fn all_tokens(&self, to: &mut Vec<u32>) {
        to.extend_from_slice(&self.tokens);
    }

    /// The nodes of a program: those to which any way leads from node 0, and the exit.
    pub(crate) fn nodes(&self, program: u32) -> Vec<Place> {
        let mut found = vec![false; self.layout.nodes];
        found[self.exit(program) as usize] = true;
        let mut left = vec![0];
        while let Some(node) = left.pop() {
            if !found[node as usize] {
                found[node as usize] = true;
                left.extend(self.next(Place { program, node }));
            }
        }
        let nodes = (0..).zip(found).filter(|&(_, found)| found);
        nodes.map(|(node, _)| Place { program, node }).collect()
    }
}

/// Which of a node's successors an edge leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    IfTrue,
    IfFalse,
    /// The two are one.
    Always,
}

/// From a place of a level to one of the next.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Edge {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) way: Way,
}

/// Where pointers can be after some steps: of programs whose steps are over, the exit alone.
#[derive(Debug, Default)]
pub(crate) struct Level {
    /// By program and node.
    pub(crate) places: Vec<Place>,
    /// Those whose line runs in the next step.
    pub(crate) running: Vec<u32>,
    /// To the next level.
    pub(crate) edges: Vec<Edge>,
}

/// The levels of some programs, from the start to the last step. `all`: every node is a place of every level.
pub(crate) fn levels(programs: &Programs, all: bool) -> Vec<Level> {
    let nodes = programs.layout.nodes;
    let starts = (0..programs.count() as u32).flat_map(|program| {
        let over = programs.steps(program) == 0;
        let begins = move |node| (all || node == 0) && (!over || node == programs.exit(program));
        programs.nodes(program).into_iter().filter(move |place| begins(place.node))
    });
    let mut levels = vec![Level { places: starts.collect(), ..Level::default() }];
    // The place of each node of one program in the next level; none where no pointer can be.
    let mut slots: Vec<Option<u32>> = vec![None; nodes];
    for step in 0..programs.most_steps() {
        let mut next = Level::default();
        let level = &mut levels[step as usize];
        let mut start = 0;
        while start < level.places.len() {
            let program = level.places[start].program;
            let end = start + level.places[start..].iter().take_while(|p| p.program == program).count();
            let span = start..end;
            start = end;
            if programs.steps(program) <= step {
                continue;
            }
            let (exit, last) = (programs.exit(program), programs.steps(program) == step + 1);
            slots.fill(None);
            for &place in &level.places[span.clone()] {
                let own = all.then_some(place.node);
                programs.next(place).into_iter().chain(own).for_each(|node| slots[node as usize] = Some(0));
            }
            for (node, slot) in (0..).zip(&mut slots) {
                if last && node != exit {
                    *slot = None;
                }
                if let Some(slot) = slot {
                    *slot = next.places.len() as u32;
                    next.places.push(Place { program, node });
                }
            }
            for from in span {
                let place = level.places[from];
                if place.node != exit {
                    level.running.push(from as u32);
                }
                let [yes, no] = programs.next(place);
                let ways: &[(u32, Way)] = match yes == no {
                    true => &[(yes, Way::Always)],
                    false => &[(yes, Way::IfTrue), (no, Way::IfFalse)],
                };
                for &(node, way) in ways {
                    if let Some(to) = slots[node as usize] {
                        level.edges.push(Edge { from: from as u32, to, way });
                    }
                }
            }
        }
        levels.push(next);
    }
    levels
}
