//! HTML documents and their sections, and the escaping of text.

use std::fmt::Write as _;

use crate::run_folder;

/// A section of a web page.
pub(super) struct Section {
    pub(super) title: String,
    /// Body of the section, as HTML.
    pub(super) body: String,
    /// True if the section spans all columns of the page.
    pub(super) wide: bool,
}

impl Section {
    /// Creates a section that spans one column of the page. `body` is HTML.
    pub(super) fn new(title: &str, body: String) -> Self {
        Self { title: title.to_owned(), body, wide: false }
    }

    /// Creates a section that spans all columns of the page. `body` is HTML.
    pub(super) fn wide(title: &str, body: String) -> Self {
        Self { wide: true, ..Self::new(title, body) }
    }
}

/// Returns a complete HTML document. `facts` and the bodies of the sections are HTML. All other
/// texts are plain and get escaped.
pub(super) fn document(
    title: &str,
    facts: &str,
    sections: &[Section],
    left_out: &[String],
    foot: &str,
) -> String {
    let mut out = String::with_capacity(1 << 17);
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n\
         <style>\n{}</style>\n</head>\n<body>\n<h1>{}</h1>\n",
        escaped(title),
        include_str!("style.css"),
        escaped(title)
    );
    out.push_str(facts);
    out.push_str("<main class=\"grid\">\n");
    for section in sections {
        let class = if section.wide { " class=\"wide\"" } else { "" };
        let _ = writeln!(
            out,
            "<section{class}>\n<h2>{}</h2>\n{}</section>",
            escaped(&section.title),
            section.body
        );
    }
    out.push_str("</main>\n");
    for text in left_out {
        let _ = writeln!(out, "<p class=\"quiet\">Not shown: {}</p>", escaped(text));
    }
    let _ = writeln!(
        out,
        "<p class=\"quiet\">{}eciton {}</p>\n</body>\n</html>",
        escaped(foot),
        run_folder::ECITON_VERSION
    );
    out
}

/// Escapes a plain text for HTML. Control characters are replaced.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_is_called_is_text() {
        assert_eq!(escaped("<b a=\"1\">&\u{1b}"), "&lt;b a=&quot;1&quot;&gt;&amp;\u{fffd}");
    }
}
