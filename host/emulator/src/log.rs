//! The end of a worker's log, for the header `X-Amz-Log-Result`.

use std::collections::VecDeque;

/// End of a log. It contains at most `limit` bytes, written since the log was last cleared.
#[derive(Debug)]
pub(crate) struct LogTail {
    limit: usize,
    bytes: VecDeque<u8>,
}

impl LogTail {
    pub(crate) fn new(limit: usize) -> Self {
        LogTail { limit, bytes: VecDeque::new() }
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    pub(crate) fn line(&mut self, line: &str) {
        let line = line.as_bytes();
        let kept = line.get(line.len().saturating_sub(self.limit)..).unwrap_or(line);
        self.bytes.extend(kept);
        self.bytes.push_back(b'\n');
        let excess = self.bytes.len().saturating_sub(self.limit);
        self.bytes.drain(..excess);
    }

    pub(crate) fn text(&self) -> String {
        let (front, back) = self.bytes.as_slices();
        let mut bytes = front.to_vec();
        bytes.extend_from_slice(back);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Splitter that divides a byte stream into lines of limited length.
#[derive(Debug)]
pub(crate) struct Lines {
    limit: usize,
    line: Vec<u8>,
    /// True while the rest of a truncated line is discarded.
    cut: bool,
}

impl Lines {
    pub(crate) fn new(limit: usize) -> Self {
        Lines { limit, line: Vec::new(), cut: false }
    }

    /// Adds bytes to the stream, and calls `line` with each line that is now complete.
    pub(crate) fn push(&mut self, bytes: &[u8], mut line: impl FnMut(&str)) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (content, ended) = match piece.strip_suffix(b"\n") {
                Some(content) => (content, true),
                None => (piece, false),
            };
            if !self.cut {
                let room = self.limit - self.line.len();
                self.line.extend_from_slice(content.get(..room).unwrap_or(content));
                if content.len() > room {
                    self.cut = true;
                    self.give(&mut line);
                }
            }
            if ended {
                if !self.cut {
                    self.give(&mut line);
                }
                self.cut = false;
            }
        }
    }

    /// Calls `line` with the last line if it has no line terminator.
    pub(crate) fn finish(&mut self, mut line: impl FnMut(&str)) {
        if !self.line.is_empty() {
            self.give(&mut line);
        }
    }

    fn give(&mut self, line: &mut impl FnMut(&str)) {
        let text = String::from_utf8_lossy(&self.line);
        line(text.trim_end_matches('\r'));
        self.line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(limit: usize, pieces: &[&[u8]]) -> Vec<String> {
        let (mut lines, mut out) = (Lines::new(limit), Vec::new());
        for piece in pieces {
            lines.push(piece, |line| out.push(line.to_owned()));
        }
        lines.finish(|line| out.push(line.to_owned()));
        out
    }

    #[test]
    fn lines_are_put_together_from_pieces() {
        assert_eq!(lines(100, &[b"one\ntw", b"o\r\n", b"\nthree"]), ["one", "two", "", "three"]);
    }

    #[test]
    fn a_line_at_the_limit_is_whole_and_beyond_it_is_cut() {
        assert_eq!(lines(4, &[b"abcd\nabcde\nx\n"]), ["abcd", "abcd", "x"]);
        assert_eq!(lines(4, &[b"abc", b"defgh", b"ij\nnext\n"]), ["abcd", "next"]);
        assert_eq!(lines(4, &[b"a\xff\xfe\n"]), ["a\u{fffd}\u{fffd}"]);
    }

    #[test]
    fn a_tail_keeps_the_last_bytes() {
        let mut tail = LogTail::new(8);
        tail.line("first");
        tail.line("x");
        assert_eq!(tail.text(), "first\nx\n");
        tail.line("yz");
        assert_eq!(tail.text(), "st\nx\nyz\n");
        tail.line("a line longer than all");
        assert_eq!(tail.text(), "han all\n");
        tail.clear();
        assert_eq!(tail.text(), "");
    }
}
