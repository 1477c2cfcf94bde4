//! Parsing of templates.

use super::{Command, Function, Operand, Pipeline, TemplateError, TemplateNode};

/// A token of an action.
#[derive(Clone, Debug, PartialEq)]
enum Token {
    /// A keyword, a function, or `true`, `false` and `nil`.
    Word(String),
    /// `.a.b`, or a dot; directly after `)` its fields belong to the parenthesis.
    Fields(Vec<String>, bool),
    Variable(String, Vec<String>),
    Text(String),
    Integer(i64),
    Pipe,
    Comma,
    /// `:=`.
    Declare,
    /// `=`.
    Assign,
    Open,
    Close,
}

/// A template, cut at its actions.
#[derive(Debug)]
enum Piece {
    Text(String),
    Action(Vec<Token>),
}

/// How deep blocks and parentheses may be nested.
const MAX_DEPTH: usize = 50;

/// Parses a whole template.
pub(super) fn parse(text: &str) -> Result<Vec<TemplateNode>, TemplateError> {
    let pieces = split(text)?;
    let mut parser = Parser { pieces: pieces.into_iter().peekable() };
    let (nodes, end) = parser.block(0)?;
    match end {
        BlockEnd::EndOfText => Ok(nodes),
        BlockEnd::End => Err(error("unexpected {{ end }}")),
        BlockEnd::Else(_) => Err(error("unexpected {{ else }}")),
    }
}

fn error(text: impl Into<String>) -> TemplateError {
    TemplateError(text.into())
}

/// The end of a block.
enum BlockEnd {
    EndOfText,
    End,
    /// `else`, with the tokens after it.
    Else(Vec<Token>),
}

struct Parser {
    pieces: std::iter::Peekable<std::vec::IntoIter<Piece>>,
}

impl Parser {
    /// The nodes until the end of a block.
    fn block(&mut self, depth: usize) -> Result<(Vec<TemplateNode>, BlockEnd), TemplateError> {
        if depth > MAX_DEPTH {
            return Err(error(format!("more than {MAX_DEPTH} nested blocks")));
        }
        let mut nodes = Vec::new();
        while let Some(piece) = self.pieces.next() {
            let tokens = match piece {
                Piece::Text(text) => {
                    nodes.push(TemplateNode::Text(text));
                    continue;
                }
                Piece::Action(tokens) => tokens,
            };
            let (keyword, rest) = match tokens.split_first() {
                Some((Token::Word(word), rest)) => (word.as_str(), rest),
                _ => ("", &tokens[..]),
            };
            match keyword {
                "end" if rest.is_empty() => return Ok((nodes, BlockEnd::End)),
                "else" => return Ok((nodes, BlockEnd::Else(rest.to_vec()))),
                "if" | "range" | "with" => nodes.push(self.control(keyword, rest, depth)?),
                "break" | "continue" | "define" | "template" | "block" => {
                    return Err(error(format!("{{{{ {keyword} }}}} is not supported")));
                }
                _ => nodes.push(statement(&tokens)?),
            }
        }
        Ok((nodes, BlockEnd::EndOfText))
    }

    /// `if`, `range` or `with`, after its keyword.
    fn control(
        &mut self,
        keyword: &str,
        head: &[Token],
        depth: usize,
    ) -> Result<TemplateNode, TemplateError> {
        let (variables, head) = declared(head);
        let condition = pipeline(head)?;
        let (body, end) = self.block(depth + 1)?;
        let otherwise = match end {
            BlockEnd::End => Vec::new(),
            BlockEnd::EndOfText => return Err(error(format!("{{{{ {keyword} }}}} without {{{{ end }}}}"))),
            BlockEnd::Else(tokens) => match tokens.split_first() {
                None => match self.block(depth + 1)? {
                    (otherwise, BlockEnd::End) => otherwise,
                    (_, BlockEnd::EndOfText | BlockEnd::Else(_)) => {
                        return Err(error(format!(
                            "{{{{ else }}}} of {{{{ {keyword} }}}} without {{{{ end }}}}"
                        )));
                    }
                },
                // The chain has one end.
                Some((Token::Word(word), rest)) if word == keyword && keyword != "range" => {
                    vec![self.control(keyword, rest, depth + 1)?]
                }
                Some(_) => return Err(error(format!("unexpected tokens after {{{{ else }}}} of {keyword}"))),
            },
        };
        match (keyword, &variables[..]) {
            ("if", []) => Ok(TemplateNode::If { condition, body, otherwise }),
            ("with", [] | [_]) => {
                let variable = variables.into_iter().next();
                Ok(TemplateNode::With { variable, value: condition, body, otherwise })
            }
            ("range", [] | [_] | [_, _]) => {
                Ok(TemplateNode::Range { variables, over: condition, body, otherwise })
            }
            _ => Err(error(format!("unsupported variables of {{{{ {keyword} }}}}"))),
        }
    }
}

/// An action that is not a control structure.
fn statement(tokens: &[Token]) -> Result<TemplateNode, TemplateError> {
    match tokens {
        [Token::Variable(name, fields), Token::Declare, rest @ ..] if fields.is_empty() => {
            Ok(TemplateNode::Declare { name: name.clone(), value: pipeline(rest)? })
        }
        [Token::Variable(name, fields), Token::Assign, rest @ ..] if fields.is_empty() => {
            Ok(TemplateNode::Assign { name: name.clone(), value: pipeline(rest)? })
        }
        tokens => Ok(TemplateNode::Output(pipeline(tokens)?)),
    }
}

/// The variables that the head of a control structure declares, and the rest.
fn declared(tokens: &[Token]) -> (Vec<String>, &[Token]) {
    match tokens {
        [Token::Variable(one, _), Token::Declare, rest @ ..] => (vec![one.clone()], rest),
        [Token::Variable(one, _), Token::Comma, Token::Variable(two, _), Token::Declare, rest @ ..] => {
            (vec![one.clone(), two.clone()], rest)
        }
        tokens => (Vec::new(), tokens),
    }
}

fn pipeline(tokens: &[Token]) -> Result<Pipeline, TemplateError> {
    let mut position = 0;
    let parsed = pipeline_until(tokens, &mut position, 0)?;
    match tokens.get(position) {
        None => Ok(parsed),
        Some(token) => Err(error(format!("unexpected {}", describe(token)))),
    }
}

/// The pipeline from a position until its end or a closing parenthesis.
fn pipeline_until(tokens: &[Token], position: &mut usize, depth: usize) -> Result<Pipeline, TemplateError> {
    if depth > MAX_DEPTH {
        return Err(error(format!("more than {MAX_DEPTH} nested parentheses")));
    }
    let mut commands = Vec::new();
    loop {
        commands.push(command(tokens, position, depth, commands.is_empty())?);
        match tokens.get(*position) {
            Some(Token::Pipe) => *position += 1,
            _ => return Ok(Pipeline(commands)),
        }
    }
}

fn command(
    tokens: &[Token],
    position: &mut usize,
    depth: usize,
    is_first: bool,
) -> Result<Command, TemplateError> {
    if let Some(Token::Word(word)) = tokens.get(*position)
        && !matches!(&**word, "true" | "false" | "nil")
    {
        *position += 1;
        let function = function_named(word)?;
        let mut operands = Vec::new();
        while let Some(operand) = operand(tokens, position, depth)? {
            operands.push(operand);
        }
        return Ok(Command::Call(function, operands));
    }
    let value = operand(tokens, position, depth)?.ok_or_else(|| error("an action without a value"))?;
    if !is_first {
        return Err(error("only functions can follow |"));
    }
    match operand(tokens, position, depth)? {
        None => Ok(Command::Value(value)),
        Some(_) => Err(error("a value that is not a function has arguments")),
    }
}

/// The next operand; `None` at the end of a command.
fn operand(tokens: &[Token], position: &mut usize, depth: usize) -> Result<Option<Operand>, TemplateError> {
    let Some(token) = tokens.get(*position) else { return Ok(None) };
    let operand = match token {
        Token::Pipe | Token::Close => return Ok(None),
        Token::Word(word) => match &**word {
            "true" => Operand::Boolean(true),
            "false" => Operand::Boolean(false),
            "nil" => Operand::Nil,
            word => Operand::Call(function_named(word)?),
        },
        Token::Fields(fields, _) => Operand::Dot(fields.clone()),
        Token::Variable(name, fields) => Operand::Variable(name.clone(), fields.clone()),
        Token::Text(text) => Operand::Text(text.clone()),
        Token::Integer(number) => Operand::Integer(*number),
        Token::Open => {
            *position += 1;
            let inner = pipeline_until(tokens, position, depth + 1)?;
            if tokens.get(*position) != Some(&Token::Close) {
                return Err(error("a parenthesis is not closed"));
            }
            let mut fields = Vec::new();
            if let Some(Token::Fields(names, true)) = tokens.get(*position + 1) {
                fields.clone_from(names);
                *position += 1;
            }
            Operand::Pipeline(inner, fields)
        }
        Token::Comma | Token::Declare | Token::Assign => {
            return Err(error(format!("unexpected {}", describe(token))));
        }
    };
    *position += 1;
    Ok(Some(operand))
}

fn function_named(name: &str) -> Result<Function, TemplateError> {
    Function::named(name).ok_or_else(|| {
        error(format!("function {name:?} is not supported: expected one of {}", Function::names()))
    })
}

fn describe(token: &Token) -> String {
    match token {
        Token::Word(word) => word.clone(),
        Token::Fields(fields, _) => format!(".{}", fields.join(".")),
        Token::Variable(name, _) => format!("${name}"),
        Token::Text(text) => format!("{text:?}"),
        Token::Integer(number) => number.to_string(),
        Token::Pipe => "|".to_owned(),
        Token::Comma => ",".to_owned(),
        Token::Declare => ":=".to_owned(),
        Token::Assign => "=".to_owned(),
        Token::Open => "(".to_owned(),
        Token::Close => ")".to_owned(),
    }
}

/// Cuts a template at its actions, and trims the text beside `{{-` and `-}}`.
fn split(text: &str) -> Result<Vec<Piece>, TemplateError> {
    let mut pieces = Vec::new();
    let mut rest = text;
    let mut trims_next = false;
    loop {
        let (before, after) = match rest.split_once("{{") {
            Some((before, after)) => (before, Some(after)),
            None => (rest, None),
        };
        let trims_end = after.is_some_and(|after| after.starts_with("- "));
        let before = if trims_next { before.trim_start() } else { before };
        let before = if trims_end { before.trim_end() } else { before };
        if !before.is_empty() {
            pieces.push(Piece::Text(before.to_owned()));
        }
        let Some(after) = after else { return Ok(pieces) };
        let after = if trims_end { &after[1..] } else { after };
        let (action, following) = cut_action(after)?;
        trims_next = action.ends_with(" -");
        let action = action.strip_suffix(" -").unwrap_or(action);
        if !action.trim_start().starts_with("/*") {
            pieces.push(Piece::Action(tokens(action)?));
        }
        rest = following;
    }
}

/// The content of an action, and the text after it. Braces in texts and comments do not end it.
fn cut_action(text: &str) -> Result<(&str, &str), TemplateError> {
    let unclosed = || error("an action is not closed with }}");
    if text.trim_start().starts_with("/*") {
        let end = text.find("*/").ok_or_else(unclosed)?;
        let close = text[end..].find("}}").ok_or_else(unclosed)? + end;
        return Ok((&text[..close], &text[close + 2..]));
    }
    let mut quote: Option<char> = None;
    let mut is_escaped = false;
    for (position, letter) in text.char_indices() {
        match quote {
            Some('"') if is_escaped => is_escaped = false,
            Some('"') if letter == '\\' => is_escaped = true,
            Some(open) if letter == open => quote = None,
            Some(_) => {}
            None if letter == '"' || letter == '`' => quote = Some(letter),
            None if text[position..].starts_with("}}") => {
                return Ok((&text[..position], &text[position + 2..]));
            }
            None => {}
        }
    }
    Err(unclosed())
}

/// The tokens of an action.
fn tokens(action: &str) -> Result<Vec<Token>, TemplateError> {
    let mut tokens = Vec::new();
    let mut rest = action.trim_start();
    let mut follows_close = false;
    while let Some(first) = rest.chars().next() {
        let before = rest;
        let token = match first {
            '|' => symbol(&mut rest, 1, Token::Pipe),
            ',' => symbol(&mut rest, 1, Token::Comma),
            '(' => symbol(&mut rest, 1, Token::Open),
            ')' => symbol(&mut rest, 1, Token::Close),
            '=' => symbol(&mut rest, 1, Token::Assign),
            ':' if rest.starts_with(":=") => symbol(&mut rest, 2, Token::Declare),
            '.' => Token::Fields(fields(&mut rest)?, follows_close),
            '$' => {
                rest = &rest[1..];
                let name = identifier(&mut rest);
                Token::Variable(name, fields(&mut rest)?)
            }
            '`' => {
                let (text, after) =
                    rest[1..].split_once('`').ok_or_else(|| error("a text is not closed with `"))?;
                rest = after;
                Token::Text(text.to_owned())
            }
            '"' => {
                let mut texts = serde_json::Deserializer::from_str(rest).into_iter::<String>();
                let text =
                    texts.next().and_then(Result::ok).ok_or_else(|| error(format!("invalid text {rest}")))?;
                rest = &rest[texts.byte_offset()..];
                Token::Text(text)
            }
            first if first.is_ascii_digit() || first == '-' => {
                let end =
                    rest[1..].find(|letter: char| !letter.is_ascii_digit()).map_or(rest.len(), |end| end + 1);
                let (number, after) = rest.split_at(end);
                rest = after;
                let number = number.parse().map_err(|_| error(format!("{number:?} is not an integer")))?;
                Token::Integer(number)
            }
            first if first.is_alphabetic() || first == '_' => Token::Word(identifier(&mut rest)),
            other => return Err(error(format!("unexpected {other:?} in an action"))),
        };
        let is_joined = before.len() > rest.len() && !rest.starts_with(char::is_whitespace);
        follows_close = token == Token::Close && is_joined;
        tokens.push(token);
        rest = rest.trim_start();
    }
    Ok(tokens)
}

fn symbol(rest: &mut &str, length: usize, token: Token) -> Token {
    *rest = &rest[length..];
    token
}

fn identifier(rest: &mut &str) -> String {
    let end = rest.find(|letter: char| !(letter.is_alphanumeric() || letter == '_')).unwrap_or(rest.len());
    let (name, after) = rest.split_at(end);
    *rest = after;
    name.to_owned()
}

/// Fields after dots; a lone dot has none.
fn fields(rest: &mut &str) -> Result<Vec<String>, TemplateError> {
    let mut fields = Vec::new();
    while let Some(after) = rest.strip_prefix('.') {
        *rest = after;
        let name = identifier(rest);
        if name.is_empty() {
            return if fields.is_empty() { Ok(fields) } else { Err(error("a field without a name")) };
        }
        fields.push(name);
    }
    Ok(fields)
}
