//! Parser for the text form of label selectors.

use super::{BadSelector, Operator, Requirement, check_key};

/// The requirements in the order of the text.
pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, BadSelector> {
    let mut tokens = Tokens { text, tokens: split(text), next: 0 };
    let mut requirements = Vec::new();
    if tokens.peek().is_empty() {
        return Ok(requirements);
    }
    loop {
        requirements.push(tokens.requirement()?);
        match tokens.take() {
            "" => return Ok(requirements),
            "," => {}
            _ => return Err(tokens.expected("',' or the end")),
        }
    }
}

/// The tokens of a text, each with its position. An empty token, which never occurs in a text, is the end.
struct Tokens<'a> {
    text: &'a str,
    tokens: Vec<(usize, &'a str)>,
    next: usize,
}

impl<'a> Tokens<'a> {
    fn peek(&self) -> &'a str {
        self.tokens.get(self.next).map_or("", |(_, token)| token)
    }

    fn take(&mut self) -> &'a str {
        let token = self.peek();
        self.next += 1;
        token
    }

    /// A word; `in` and `notin` are words too, where no operator is expected.
    fn word(&mut self, expected: &str) -> Result<&'a str, BadSelector> {
        match self.take() {
            token if is_word(token) => Ok(token),
            _ => Err(self.expected(expected)),
        }
    }

    fn requirement(&mut self) -> Result<Requirement, BadSelector> {
        let start = self.next;
        let absent = self.peek() == "!";
        if absent {
            self.take();
        }
        let key = self.word("a label key")?;
        check_key(key).map_err(|why| self.bad(start, why))?;
        let (operator, values) = if absent {
            (Operator::DoesNotExist, Vec::new())
        } else if matches!(self.peek(), "" | ",") {
            (Operator::Exists, Vec::new())
        } else {
            let operator = self.operator()?;
            let values = match operator {
                Operator::In | Operator::NotIn => self.values()?,
                _ if matches!(self.peek(), "" | ",") => vec![String::new()],
                _ => vec![self.word("a value")?.to_owned()],
            };
            (operator, values)
        };
        Requirement::new(key, operator, values).map_err(|why| self.bad(start, why))
    }

    fn operator(&mut self) -> Result<Operator, BadSelector> {
        Ok(match self.take() {
            "=" => Operator::Equals,
            "==" => Operator::DoubleEquals,
            "!=" => Operator::NotEquals,
            "in" => Operator::In,
            "notin" => Operator::NotIn,
            ">" => Operator::GreaterThan,
            "<" => Operator::LessThan,
            _ => return Err(self.expected("one of =, ==, !=, in, notin, > and <")),
        })
    }

    /// `(a,b)`. The empty value is allowed between commas.
    fn values(&mut self) -> Result<Vec<String>, BadSelector> {
        if self.take() != "(" {
            return Err(self.expected("'('"));
        }
        let mut values = Vec::new();
        loop {
            values.push(if is_word(self.peek()) { self.take().to_owned() } else { String::new() });
            match self.take() {
                "," => {}
                ")" => break,
                _ => return Err(self.expected("',' or ')'")),
            }
        }
        values.sort_unstable();
        values.dedup();
        Ok(values)
    }

    /// The error for an unexpected last token.
    fn expected(&self, token_name: &str) -> BadSelector {
        let index = self.next - 1;
        let found = self.tokens.get(index).map_or("the end".to_owned(), |(_, token)| format!("'{token}'"));
        self.bad(index, format!("expected {token_name}, found {found}"))
    }

    fn bad(&self, index: usize, why: String) -> BadSelector {
        let at = self.tokens.get(index).map_or(self.text.len(), |(at, _)| *at);
        let character = self.text[..at].chars().count() + 1;
        BadSelector { place: format!("at character {character} of {:?}", self.text), why }
    }
}

fn split(text: &str) -> Vec<(usize, &str)> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let length = if is_space(first) {
            first.len_utf8()
        } else if !is_symbol(first) {
            rest.find(|c| is_space(c) || is_symbol(c)).unwrap_or(rest.len())
        } else if rest.starts_with("==") || rest.starts_with("!=") {
            2
        } else {
            1
        };
        if !is_space(first) {
            tokens.push((at, &rest[..length]));
        }
        at += length;
    }
    tokens
}

fn is_word(token: &str) -> bool {
    token.chars().next().is_some_and(|first| !is_symbol(first))
}

fn is_symbol(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}
