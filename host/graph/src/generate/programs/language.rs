//! Small language whose programs are drawn, run and encoded. It has assignments, arithmetic,
//! branches and loops.
//!
//! A [`Program`] is a list of [`Line`]s, each of which has one statement. The line `else:` is a
//! statement that does nothing. The variable v0 is computed modulo m. The counters v1, v2, ...
//! contain the remaining iterations of loops.
//!
//! ```text
//! v0 = 7            the first line; 0 to m - 1
//! v0 += 3           also -= and *=, by 1 to 9
//! v1 = 4            a loop of 2 to 9 turns: three lines and a body
//! while v1 > 0:
//! v1 -= 1
//! if v0 % 10 < 5: also <=, > and >=, with 0 to 9
//!     continue      or break; the last line of a branch within a loop
//! else:           optional
//!     pass
//! ```
//!
//! Programs are generated top-down: a block with a given number of lines is filled with statements,
//! drawn with the weights of Bieber et al. 2020 ("Learning to execute programs with instruction
//! pointer attention graph neural networks"): arithmetic 15, `while`, `if` and `if`-`else` 5 each,
//! `pass` 1.
//!
//! This file does not depend on the rest of the crate, so `rustc --test` can compile it.

use std::fmt;

/// Number of tokens per line, which are indentation, operation, variable and number.
pub const TOKENS: usize = 4;
/// Number of values per node of a row. They are the tokens, the successors if the condition is true
/// and if it is false, the exit, and the number of steps.
pub const NODE: usize = TOKENS + 4;
/// Maximum indentation level of a line.
const DEEPEST: u32 = 9;
/// Maximum number of nested loops. It limits the run time of programs.
const LOOPS: u32 = 4;
/// Maximum number of lines that are executed when a program runs.
const RUN_MAX: u64 = 1 << 24;

/// Statement of a line, without its variable and number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statement {
    /// `v = number`
    Assign,
    /// `v += number`
    Add,
    /// `v -= number`
    Subtract,
    /// `v *= number`
    Multiply,
    /// `while v > 0:`
    While,
    /// `if v0 % 10 < number:`
    Less,
    /// `if v0 % 10 <= number:`
    AtMost,
    /// `if v0 % 10 > number:`
    Greater,
    /// `if v0 % 10 >= number:`
    AtLeast,
    /// `else:`
    Else,
    /// `pass`
    Pass,
    /// `break`
    Break,
    /// `continue`
    Continue,
    /// `_ = 0`, which replaces a statement that is hidden.
    Hidden,
}

use Statement as S;

/// All statements, in the order of their operation tokens.
const STATEMENTS: [Statement; 14] = [
    S::Assign,
    S::Add,
    S::Subtract,
    S::Multiply,
    S::While,
    S::Less,
    S::AtMost,
    S::Greater,
    S::AtLeast,
    S::Else,
    S::Pass,
    S::Break,
    S::Continue,
    S::Hidden,
];
/// Token of the first operation. Token 0 means that there is no token. The other tokens are those
/// of indentations, operations, variables and numbers, in this order.
const FIRST_OPERATION: u32 = 1 + DEEPEST + 1;
const FIRST_VARIABLE: u32 = FIRST_OPERATION + STATEMENTS.len() as u32;
const FIRST_NUMBER: u32 = FIRST_VARIABLE + 1 + LOOPS;

/// Line of a program with its statement and its possible successors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// Number of blocks that enclose the line.
    pub indent: u32,
    /// Number of loops that enclose the line.
    pub loops: u32,
    /// Statement of the line.
    pub statement: Statement,
    /// Index of the statement's variable, or 0 if it has none.
    pub variable: u32,
    /// Number in the statement, or 0 if it has none.
    pub number: u32,
    /// Index of the next line if the condition is true. The number of lines means that the program
    /// ends.
    pub yes: usize,
    /// Index of the next line if the condition is false. It equals `yes` if the line has no
    /// condition.
    pub no: usize,
}

/// Program in the small language, which computes v0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Lines of the program, of which there is at least one.
    pub lines: Vec<Line>,
    /// Modulus of the variable v0, at least 2.
    pub modulus: u32,
}

/// Source of random numbers below a given bound.
pub trait Draw {
    /// Returns a random number from 0 to `bound - 1`. `bound` must be above 0.
    fn below(&mut self, bound: u32) -> u32;
}

impl<F: FnMut(u32) -> u32> Draw for F {
    fn below(&mut self, bound: u32) -> u32 {
        self(bound)
    }
}

/// Statement with the blocks that are nested in it.
#[derive(Debug, Clone)]
enum Node {
    One { statement: Statement, variable: u32, number: u32 },
    While { variable: u32, turns: u32, body: Vec<Node> },
    If { statement: Statement, number: u32, body: Vec<Node>, other: Vec<Node> },
}

impl Node {
    fn lines(&self) -> usize {
        match self {
            Self::One { .. } => 1,
            Self::While { body, .. } => 3 + lines(body),
            Self::If { body, other, .. } if other.is_empty() => 1 + lines(body),
            Self::If { body, other, .. } => 2 + lines(body) + lines(other),
        }
    }
}

fn lines(block: &[Node]) -> usize {
    block.iter().map(Node::lines).sum()
}

/// Nesting of a block, which limits the statements in it.
#[derive(Debug, Clone, Copy)]
struct Place {
    indent: u32,
    loops: u32,
    /// True if the block is a branch. Only there may `break` or `continue` end the block, so that
    /// no line becomes unreachable.
    branch: bool,
}

/// Draws the statements of a block with `left` lines.
fn block(draw: &mut impl Draw, place: Place, mut left: usize) -> Vec<Node> {
    let mut nodes = Vec::new();
    while left > 0 {
        let node = statement(draw, place, left);
        left = left.saturating_sub(node.lines());
        nodes.push(node);
    }
    nodes
}

/// Draws a statement that has between 1 and `most` lines, including nested blocks.
fn statement(draw: &mut impl Draw, place: Place, most: usize) -> Node {
    let Place { indent, loops, branch } = place;
    let deeper = indent < DEEPEST;
    let fits = |least: usize, weight: u32| if most >= least && deeper { weight } else { 0 };
    let leave = if most == 1 && branch && loops > 0 { 5 } else { 0 };
    let turns = if loops < LOOPS { fits(4, 5) } else { 0 };
    let weights = [15, turns, fits(2, 5), fits(4, 5), 1, leave, leave];
    let mut at = draw.below(weights.iter().sum());
    let mut kind = 0;
    for weight in weights {
        if at < weight {
            break;
        }
        at -= weight;
        kind += 1;
    }
    // Every number of lines that fits is equally likely for a body.
    let mut share = |most: usize| 1 + draw.below(most.max(1) as u32) as usize;
    let inner = |loops: u32, branch: bool| Place { indent: indent + 1, loops, branch };
    let one = |statement| Node::One { statement, variable: 0, number: 0 };
    match kind {
        1 => {
            let size = share(most - 3);
            let turns = 2 + draw.below(8);
            Node::While { variable: loops + 1, turns, body: block(draw, inner(loops + 1, false), size) }
        }
        2 | 3 => {
            let (size, other) = match kind {
                2 => (share(most - 1), 0),
                _ => {
                    let size = share(most - 3);
                    (size, share(most - 2 - size))
                }
            };
            let statement = match draw.below(4) {
                0 => S::Less,
                1 => S::AtMost,
                2 => S::Greater,
                _ => S::AtLeast,
            };
            let number = draw.below(10);
            let body = block(draw, inner(loops, true), size);
            Node::If { statement, number, body, other: block(draw, inner(loops, true), other) }
        }
        4 => one(S::Pass),
        5 => one(S::Break),
        6 => one(S::Continue),
        _ => {
            let statement = match draw.below(3) {
                0 => S::Add,
                1 => S::Subtract,
                _ => S::Multiply,
            };
            Node::One { statement, variable: 0, number: 1 + draw.below(9) }
        }
    }
}

/// Builder that converts nested statements to lines with successors.
struct Flattened {
    lines: Vec<Line>,
}

/// Lines at which execution continues after `break` and `continue` in a loop.
#[derive(Debug, Clone, Copy, Default)]
struct Loop {
    after: usize,
    head: usize,
}

impl Flattened {
    fn push(&mut self, place: Place, statement: Statement, operands: (u32, u32), next: (usize, usize)) {
        let Place { indent, loops, .. } = place;
        let ((variable, number), (yes, no)) = (operands, next);
        self.lines.push(Line { indent, loops, statement, variable, number, yes, no });
    }

    /// Appends the lines of a block. Execution continues at the line `after` when the block ends.
    fn block(&mut self, nodes: &[Node], place: Place, after: usize, inside: Loop) {
        for (at, node) in nodes.iter().enumerate() {
            let start = self.lines.len();
            let end = start + node.lines();
            let next = if at + 1 == nodes.len() { after } else { end };
            let inner = |loops| Place { indent: place.indent + 1, loops, branch: false };
            match node {
                &Node::One { statement, variable, number } => {
                    let next = match statement {
                        S::Break => inside.after,
                        S::Continue => inside.head,
                        _ => next,
                    };
                    self.push(place, statement, (variable, number), (next, next));
                }
                Node::While { variable, turns, body } => {
                    let head = start + 1;
                    self.push(place, S::Assign, (*variable, *turns), (head, head));
                    self.push(place, S::While, (*variable, 0), (head + 1, next));
                    let within = inner(place.loops + 1);
                    self.push(within, S::Subtract, (*variable, 1), (head + 2, head + 2));
                    self.block(body, within, head, Loop { after: next, head });
                }
                Node::If { statement, number, body, other } => {
                    let branch = start + 1 + lines(body);
                    let no = if other.is_empty() { next } else { branch };
                    self.push(place, *statement, (0, *number), (start + 1, no));
                    self.block(body, inner(place.loops), next, inside);
                    if !other.is_empty() {
                        self.push(place, S::Else, (0, 0), (branch + 1, branch + 1));
                        self.block(other, inner(place.loops), next, inside);
                    }
                }
            }
        }
    }
}

impl Program {
    /// Draws a program with `lines` lines (at least one), in which v0 is computed modulo `modulus`
    /// (at least 2).
    #[must_use]
    pub fn draw(draw: &mut impl Draw, lines: usize, modulus: u32) -> Self {
        let place = Place { indent: 0, loops: 0, branch: false };
        let first = Node::One { statement: S::Assign, variable: 0, number: draw.below(modulus) };
        let mut nodes = vec![first];
        nodes.extend(block(draw, place, lines.saturating_sub(1)));
        let mut flat = Flattened { lines: Vec::with_capacity(lines) };
        let end = self::lines(&nodes);
        flat.block(&nodes, place, end, Loop::default());
        Self { lines: flat.lines, modulus }
    }

    /// Runs the program and returns the final value of v0. Returns `None` if the program does not
    /// end within 2^24 lines.
    #[must_use]
    pub fn run(&self) -> Option<u32> {
        let (mut at, mut values) = (0, [0u32; 1 + LOOPS as usize]);
        for _ in 0..RUN_MAX {
            let Some(line) = self.lines.get(at) else { return Some(values[0]) };
            let m = if line.variable == 0 { self.modulus } else { u32::MAX };
            let v = values.get_mut(line.variable as usize)?;
            let digit = *v % 10;
            let holds = match line.statement {
                S::While => *v > 0,
                S::Less => digit < line.number,
                S::AtMost => digit <= line.number,
                S::Greater => digit > line.number,
                S::AtLeast => digit >= line.number,
                _ => true,
            };
            let (old, number) = (u64::from(*v), u64::from(line.number));
            let m = u64::from(m);
            *v = match line.statement {
                S::Assign => number % m,
                S::Add => (old + number) % m,
                S::Subtract => (old + m - number % m) % m,
                S::Multiply => old * number % m,
                _ => old,
            } as u32;
            at = if holds { line.yes } else { line.no };
        }
        None
    }

    /// Returns the number of steps that a network needs to execute the program. It is 1, plus 2^l
    /// for each line within l loops, plus 2^(l + 1) for each `while`.
    #[must_use]
    pub fn steps(&self) -> u32 {
        let of =
            |line: &Line| (1u32 << line.loops) + if line.statement == S::While { 2 << line.loops } else { 0 };
        1 + self.lines.iter().map(of).sum::<u32>()
    }

    /// Returns the program with one random statement about v0 replaced by `_ = 0`.
    #[must_use]
    pub fn with_hidden(mut self, draw: &mut impl Draw) -> Self {
        let shown = |line: &&mut Line| {
            line.variable == 0 && matches!(line.statement, S::Assign | S::Add | S::Subtract | S::Multiply)
        };
        let count = self.lines.iter_mut().filter(shown).count() as u32;
        if count > 0 {
            let which = draw.below(count) as usize;
            if let Some(line) = self.lines.iter_mut().filter(shown).nth(which) {
                (line.statement, line.variable, line.number) = (S::Hidden, 0, 0);
            }
        }
        self
    }

    /// Returns the number of distinct tokens if v0 is computed modulo `modulus`.
    #[must_use]
    pub fn entries(modulus: u32) -> u32 {
        FIRST_NUMBER + modulus.max(10)
    }

    /// Appends the program to `row` as `nodes` nodes with [`NODE`] values each. The exit is the
    /// node after the last line. The exit and the padding nodes have only the token 0, and are
    /// their own successors. The number of steps is limited to `most_steps`. Returns `None` if the
    /// program has too many lines.
    #[must_use]
    pub fn encode(&self, nodes: usize, most_steps: u32, row: &mut Vec<f32>) -> Option<()> {
        let exit = self.lines.len();
        if exit >= nodes {
            return None;
        }
        let steps = self.steps().min(most_steps) as f32;
        for node in 0..nodes {
            let (tokens, yes, no) = match self.lines.get(node) {
                Some(line) => (line.tokens(), line.yes, line.no),
                None => ([0; TOKENS], node, node),
            };
            row.extend(tokens.map(|token| token as f32));
            row.extend([yes as f32, no as f32, exit as f32, steps]);
        }
        Some(())
    }
}

impl Line {
    /// Returns the tokens of the line, which are indentation, operation, variable and number.
    /// Tokens that the line lacks are 0.
    #[must_use]
    pub fn tokens(&self) -> [u32; TOKENS] {
        let operation = STATEMENTS.iter().position(|&s| s == self.statement).unwrap_or(0) as u32;
        let (variable, number) = match self.statement {
            S::Assign | S::Add | S::Subtract | S::Multiply => (Some(self.variable), Some(self.number)),
            S::While => (Some(self.variable), None),
            S::Less | S::AtMost | S::Greater | S::AtLeast => (Some(0), Some(self.number)),
            S::Else | S::Pass | S::Break | S::Continue | S::Hidden => (None, None),
        };
        let token = |first: u32, of: Option<u32>| of.map_or(0, |v| first + v);
        [
            1 + self.indent,
            FIRST_OPERATION + operation,
            token(FIRST_VARIABLE, variable),
            token(FIRST_NUMBER, number),
        ]
    }
}

/// Formats the program as Python source. The modulus is left out.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            let Line { statement, variable: v, number: n, .. } = line;
            (0..line.indent).try_for_each(|_| f.write_str("  "))?;
            match statement {
                S::Assign => writeln!(f, "v{v} = {n}")?,
                S::Add => writeln!(f, "v{v} += {n}")?,
                S::Subtract => writeln!(f, "v{v} -= {n}")?,
                S::Multiply => writeln!(f, "v{v} *= {n}")?,
                S::While => writeln!(f, "while v{v} > 0:")?,
                S::Less => writeln!(f, "if v0 % 10 < {n}:")?,
                S::AtMost => writeln!(f, "if v0 % 10 <= {n}:")?,
                S::Greater => writeln!(f, "if v0 % 10 > {n}:")?,
                S::AtLeast => writeln!(f, "if v0 % 10 >= {n}:")?,
                S::Else => f.write_str("else:\n")?,
                S::Pass => f.write_str("pass\n")?,
                S::Break => f.write_str("break\n")?,
                S::Continue => f.write_str("continue\n")?,
                S::Hidden => f.write_str("_ = 0\n")?,
            }
        }
        Ok(())
    }
}

/// Draws the length of a program, from 2 to `most` lines. The probability of `most` is 9/10, and
/// each shorter length takes half of the remaining probability.
pub fn length(draw: &mut impl Draw, most: usize) -> usize {
    if draw.below(10) > 0 {
        return most;
    }
    let mut length = most.saturating_sub(1).max(1);
    while length > 2 && draw.below(2) == 0 {
        length -= 1;
    }
    length
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    /// Returns a SplitMix64 generator of numbers below a bound.
    fn numbers(seed: u64) -> impl FnMut(u32) -> u32 {
        let mut state = seed;
        move |bound| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^= z >> 31;
            ((u128::from(z) * u128::from(bound)) >> 64) as u32
        }
    }

    /// Way in which the execution of a block ended.
    #[derive(PartialEq)]
    enum End {
        Usual,
        Break,
        Continue,
    }

    /// Runs a program by its indentation alone, like a person who reads the text.
    fn read(lines: &[Line], modulus: i64, values: &mut [i64]) -> End {
        let mut at = 0;
        while at < lines.len() {
            let line = lines[at];
            let body = |from: usize| {
                let deeper = lines[from..].iter().take_while(|l| l.indent > line.indent).count();
                from..from + deeper
            };
            let (v, n) = (line.variable as usize, i64::from(line.number));
            let m = if v == 0 { modulus } else { i64::MAX };
            let digit = values[0] % 10;
            at += 1;
            match line.statement {
                S::Assign => values[v] = n,
                S::Add => values[v] = (values[v] + n).rem_euclid(m),
                S::Subtract => values[v] = (values[v] - n).rem_euclid(m),
                S::Multiply => values[v] = (values[v] * n).rem_euclid(m),
                S::Pass | S::Hidden => {}
                S::Break => return End::Break,
                S::Continue => return End::Continue,
                S::While => {
                    let span = body(at);
                    at = span.end;
                    while values[v] > 0 && read(&lines[span.clone()], modulus, values) != End::Break {}
                }
                S::Else => panic!("else without an if"),
                S::Less | S::AtMost | S::Greater | S::AtLeast => {
                    let holds = match line.statement {
                        S::Less => digit < n,
                        S::AtMost => digit <= n,
                        S::Greater => digit > n,
                        _ => digit >= n,
                    };
                    let yes = body(at);
                    at = yes.end;
                    let mut taken = holds.then_some(yes);
                    let is_else = |l: &Line| l.indent == line.indent && l.statement == S::Else;
                    if lines.get(at).is_some_and(is_else) {
                        let no = body(at + 1);
                        at = no.end;
                        taken = taken.or(Some(no));
                    }
                    let end = taken.map_or(End::Usual, |span| read(&lines[span], modulus, values));
                    if end != End::Usual {
                        return end;
                    }
                }
            }
        }
        End::Usual
    }

    #[test]
    fn programs_end_where_reading_them_by_indentation_ends() {
        let mut kinds = std::collections::HashSet::new();
        for seed in 0..4000u64 {
            let mut draw = numbers(seed);
            let (lines, modulus) = (1 + (seed % 24) as usize, [10, 7, 1000][(seed % 3) as usize]);
            let program = Program::draw(&mut draw, lines, modulus);
            assert_eq!(program.lines.len(), lines, "seed {seed}");
            let mut values = [0i64; 10];
            let modulus = i64::from(modulus);
            values[0] = i64::from(program.lines[0].number);
            read(&program.lines, modulus, &mut values);
            assert_eq!(i64::from(program.run().unwrap()), values[0], "seed {seed}:\n{program}");
            kinds.extend(program.lines.iter().map(|line| format!("{:?}", line.statement)));
            for line in &program.lines {
                assert!(
                    line.yes <= lines && line.no <= lines && line.indent <= DEEPEST && line.loops <= LOOPS
                );
            }
        }
        assert_eq!(kinds.len(), STATEMENTS.len() - 1, "{kinds:?}");
    }

    #[test]
    fn a_program_that_is_known() {
        let line = |indent, loops, statement, variable, number, yes, no| Line {
            indent,
            loops,
            statement,
            variable,
            number,
            yes,
            no,
        };
        let lines = vec![
            line(0, 0, S::Assign, 0, 7, 1, 1),
            line(0, 0, S::Assign, 1, 3, 2, 2),
            line(0, 0, S::While, 1, 0, 3, 6),
            line(1, 1, S::Subtract, 1, 1, 4, 4),
            line(1, 1, S::AtLeast, 0, 5, 5, 2),
            line(2, 1, S::Multiply, 0, 4, 2, 2),
        ];
        let program = Program { lines, modulus: 10 };
        // 7, 28, 32 (which ends in 2).
        assert_eq!(program.run(), Some(2));
        assert_eq!(program.steps(), 1 + 1 + 1 + (1 + 2) + 2 + 2 + 2);
        let text = "v0 = 7\nv1 = 3\nwhile v1 > 0:\n  v1 -= 1\n  if v0 % 10 >= 5:\n    v0 *= 4\n";
        assert_eq!(program.to_string(), text);
        let mut row = Vec::new();
        program.encode(8, 100, &mut row).unwrap();
        assert_eq!(row.len(), 8 * NODE);
        let node = |at: usize| row[at * NODE..][..NODE].to_vec();
        let v = |n: u32| n as f32;
        assert_eq!(
            node(5),
            [3.0, v(FIRST_OPERATION + 3), v(FIRST_VARIABLE), v(FIRST_NUMBER + 4), 2.0, 2.0, 6.0, 12.0]
        );
        assert_eq!(node(2)[4..], [3.0, 6.0, 6.0, 12.0]);
        assert_eq!(node(6), [0.0, 0.0, 0.0, 0.0, 6.0, 6.0, 6.0, 12.0]);
        assert_eq!(node(7)[4..6], [7.0, 7.0]);
        assert!(row.iter().all(|&token| token < Program::entries(10) as f32));
        assert_eq!(program.encode(6, 100, &mut Vec::new()), None);
    }

    #[test]
    fn one_statement_is_hidden_and_lengths_are_mostly_the_longest() {
        let mut draw = numbers(3);
        let mut counts = [0u32; 8];
        for _ in 0..4000 {
            counts[length(&mut draw, 6)] += 1;
            let program = Program::draw(&mut draw, 6, 10);
            let (before, hidden) = (program.lines.clone(), program.with_hidden(&mut draw).lines);
            let changed = before.iter().zip(&hidden).filter(|(a, b)| a != b).count();
            assert_eq!(changed, 1);
            assert_eq!(hidden.iter().filter(|l| l.statement == S::Hidden).count(), 1);
        }
        assert!((3500..3700).contains(&counts[6]), "{counts:?}");
        assert!((150..260).contains(&counts[5]) && (10..70).contains(&counts[2]), "{counts:?}");
        assert_eq!(counts[0] + counts[1] + counts[7], 0);
    }

    /// Tests that a program with an endless loop ends without a result.
    #[test]
    fn what_does_not_end_has_no_result() {
        let line = Line { indent: 0, loops: 0, statement: S::Pass, variable: 0, number: 0, yes: 0, no: 0 };
        assert_eq!(Program { lines: vec![line], modulus: 10 }.run(), None);
    }
}
