//! Tokens to a tree. Precedence, high to low: function calls, NOT and `-`, LIKE and IN, `* / %`, `+ -`, comparisons, AND OR
//! XOR (spec section 3.6 and the published grammar).

use super::ParseError;
use super::functions::{self, Function};
use super::lexer::{Token, tokens, unquoted};
use super::like::Pattern;
use super::value::Value;

/// Deepest nesting: what recursion over a tree may cost is bounded by it.
const DEPTH_MAX: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
    Literal(Value<'static>),
    Attribute(String),
    Exists(String),
    Not(Box<Node>),
    Minus(Box<Node>),
    Like(Box<Node>, Pattern),
    In(Box<Node>, Vec<Node>),
    Math(Math, Box<Node>, Box<Node>),
    Compare(Compare, Box<Node>, Box<Node>),
    /// `first op (second op (third ...))`: each operator behind its left operand.
    Logic(Vec<(Node, Logic)>, Box<Node>),
    Call(Function, Vec<Node>),
    /// A function that does not exist, with its number of arguments.
    Unknown(String, usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Math {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compare {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Logic {
    And,
    Or,
    Xor,
}

pub(super) fn parse(text: &str) -> Result<Node, ParseError> {
    let mut parser = Parser { tokens: tokens(text)?, next: 0, end: text.len(), depth: 0 };
    let node = parser.expression()?;
    if parser.peek().is_some() {
        return Err(parser.error("the expression should end here"));
    }
    Ok(node)
}

struct Parser<'a> {
    tokens: Vec<(usize, Token<'a>)>,
    next: usize,
    end: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.next).map(|(_, token)| *token)
    }

    fn error(&self, reason: &str) -> ParseError {
        let at = self.tokens.get(self.next).map_or(self.end, |(at, _)| *at);
        ParseError { at, reason: reason.to_owned() }
    }

    fn sign(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Sign(found)) if found == sign);
        self.next += usize::from(found);
        found
    }

    fn keyword(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Word(found)) if found.eq_ignore_ascii_case(word));
        self.next += usize::from(found);
        found
    }

    /// One level deeper, or a refusal.
    fn deeper(&mut self) -> Result<(), ParseError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.error(&format!("nested deeper than {DEPTH_MAX}")));
        }
        Ok(())
    }

    fn expression(&mut self) -> Result<Node, ParseError> {
        self.deeper()?;
        let mut before = Vec::new();
        let last = loop {
            let operand = self.comparison()?;
            let operator = if self.keyword("AND") {
                Logic::And
            } else if self.keyword("OR") {
                Logic::Or
            } else if self.keyword("XOR") {
                Logic::Xor
            } else {
                break operand;
            };
            before.push((operand, operator));
        };
        self.depth -= 1;
        Ok(if before.is_empty() { last } else { Node::Logic(before, Box::new(last)) })
    }

    fn comparison(&mut self) -> Result<Node, ParseError> {
        const OPERATORS: [(&str, Compare); 7] = [
            ("=", Compare::Equal),
            ("!=", Compare::NotEqual),
            ("<>", Compare::NotEqual),
            ("<", Compare::Less),
            ("<=", Compare::LessOrEqual),
            (">", Compare::Greater),
            (">=", Compare::GreaterOrEqual),
        ];
        self.chain(&OPERATORS, Self::additive, Node::Compare)
    }

    fn additive(&mut self) -> Result<Node, ParseError> {
        const OPERATORS: [(&str, Math); 2] = [("+", Math::Add), ("-", Math::Subtract)];
        self.chain(&OPERATORS, Self::multiplicative, |operator, left, right| {
            Node::Math(operator, left, right)
        })
    }

    fn multiplicative(&mut self) -> Result<Node, ParseError> {
        const OPERATORS: [(&str, Math); 3] =
            [("*", Math::Multiply), ("/", Math::Divide), ("%", Math::Remainder)];
        self.chain(&OPERATORS, Self::postfix, Node::Math)
    }

    /// Operators of one precedence, grouped from the left.
    fn chain<O: Copy>(
        &mut self,
        operators: &[(&'static str, O)],
        operand: fn(&mut Self) -> Result<Node, ParseError>,
        node: fn(O, Box<Node>, Box<Node>) -> Node,
    ) -> Result<Node, ParseError> {
        let mut left = operand(self)?;
        let depth = self.depth;
        while let Some((_, operator)) = operators.iter().find(|(sign, _)| self.sign(sign)) {
            // each operator makes the tree deeper on its left
            self.deeper()?;
            let right = operand(self)?;
            left = node(*operator, Box::new(left), Box::new(right));
        }
        self.depth = depth;
        Ok(left)
    }

    fn postfix(&mut self) -> Result<Node, ParseError> {
        let mut node = self.unary()?;
        let depth = self.depth;
        loop {
            let start = self.next;
            let not = self.keyword("NOT");
            let tested = if self.keyword("LIKE") {
                let Some(Token::Quoted(text, quote)) = self.peek() else {
                    return Err(self.error("LIKE needs a pattern in quotes"));
                };
                self.next += 1;
                Node::Like(Box::new(node), Pattern::new(&unquoted(text, quote)))
            } else if self.keyword("IN") {
                if !self.sign("(") {
                    return Err(self.error("IN needs a set in parentheses"));
                }
                Node::In(Box::new(node), self.list()?)
            } else {
                self.next = start;
                self.depth = depth;
                return Ok(node);
            };
            self.deeper()?;
            node = if not { Node::Not(Box::new(tested)) } else { tested };
        }
    }

    fn unary(&mut self) -> Result<Node, ParseError> {
        self.deeper()?;
        let node = if self.keyword("NOT") {
            Node::Not(Box::new(self.unary()?))
        } else if self.sign("-") {
            match self.peek() {
                Some(Token::Digits(digits)) => self.integer(&format!("-{digits}"))?,
                _ => Node::Minus(Box::new(self.unary()?)),
            }
        } else if self.sign("+") {
            match self.peek() {
                Some(Token::Digits(digits)) => self.integer(digits)?,
                _ => return Err(self.error("+ stands before a number only")),
            }
        } else {
            self.primary()?
        };
        self.depth -= 1;
        Ok(node)
    }

    fn primary(&mut self) -> Result<Node, ParseError> {
        match self.peek() {
            Some(Token::Sign("(")) => {
                self.next += 1;
                let node = self.expression()?;
                if !self.sign(")") {
                    return Err(self.error("a closing parenthesis is missing"));
                }
                Ok(node)
            }
            Some(Token::Digits(digits)) => self.integer(digits),
            Some(Token::Quoted(text, quote)) => {
                self.next += 1;
                Ok(Node::Literal(Value::Text(unquoted(text, quote).into())))
            }
            Some(Token::Word(word)) => self.word(word),
            _ => Err(self.error("a value should stand here")),
        }
    }

    fn word(&mut self, word: &str) -> Result<Node, ParseError> {
        const RESERVED: [&str; 6] = ["AND", "OR", "XOR", "NOT", "LIKE", "IN"];
        if RESERVED.iter().any(|reserved| word.eq_ignore_ascii_case(reserved)) {
            return Err(self.error("a value should stand here"));
        }
        self.next += 1;
        if word.eq_ignore_ascii_case("TRUE") || word.eq_ignore_ascii_case("FALSE") {
            return Ok(Node::Literal(Value::Bool(word.eq_ignore_ascii_case("TRUE"))));
        }
        if word.eq_ignore_ascii_case("EXISTS") {
            let Some(Token::Word(name) | Token::Digits(name)) = self.peek() else {
                return Err(self.error("EXISTS needs the name of an attribute"));
            };
            self.next += 1;
            return Ok(Node::Exists(self.attribute_name(name)?));
        }
        if !self.sign("(") {
            return Ok(Node::Attribute(self.attribute_name(word)?));
        }
        let arguments = if self.sign(")") { Vec::new() } else { self.list()? };
        let name = word.to_ascii_uppercase();
        Ok(match functions::find(&name, arguments.len()) {
            Some(function) => Node::Call(function, arguments),
            None => Node::Unknown(name, arguments.len()),
        })
    }

    /// Expressions up to the closing parenthesis, at least one.
    fn list(&mut self) -> Result<Vec<Node>, ParseError> {
        let mut nodes = vec![self.expression()?];
        while self.sign(",") {
            nodes.push(self.expression()?);
        }
        if !self.sign(")") {
            return Err(self.error("a comma or a closing parenthesis is missing"));
        }
        Ok(nodes)
    }

    fn attribute_name(&self, word: &str) -> Result<String, ParseError> {
        if word.contains('_') {
            let at = self.tokens.get(self.next.saturating_sub(1)).map_or(self.end, |(at, _)| *at);
            return Err(ParseError { at, reason: format!("no attribute can be named {word}") });
        }
        Ok(word.to_ascii_lowercase())
    }

    fn integer(&mut self, text: &str) -> Result<Node, ParseError> {
        let value = text.parse().map_err(|_| self.error("the number does not fit in 32 bits"))?;
        self.next += 1;
        Ok(Node::Literal(Value::Int(value)))
    }
}

impl Node {
    /// The first call of a function that does not exist.
    pub(super) fn unknown_function(&self) -> Option<String> {
        let all = |nodes: &[Self]| nodes.iter().find_map(Self::unknown_function);
        match self {
            Self::Unknown(name, arguments) => Some(format!("{name} with {arguments} arguments")),
            Self::Literal(_) | Self::Attribute(_) | Self::Exists(_) => None,
            Self::Not(node) | Self::Minus(node) | Self::Like(node, _) => node.unknown_function(),
            Self::In(node, set) => node.unknown_function().or_else(|| all(set)),
            Self::Math(_, left, right) | Self::Compare(_, left, right) => {
                left.unknown_function().or_else(|| right.unknown_function())
            }
            Self::Logic(before, last) => before
                .iter()
                .find_map(|(node, _)| node.unknown_function())
                .or_else(|| last.unknown_function()),
            Self::Call(_, arguments) => all(arguments),
        }
    }
}
