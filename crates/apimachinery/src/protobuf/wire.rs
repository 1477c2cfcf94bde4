//! The fields of a protobuf message, as they are on the wire.

use super::ProtobufError;

/// Reads the fields of a message.
pub(super) struct WireReader<'a> {
    /// The name of the message, for errors.
    message: &'static str,
    rest: &'a [u8],
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WireValue<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
}

// === impl WireReader ===

impl<'a> WireReader<'a> {
    pub(super) fn new(message: &'static str, bytes: &'a [u8]) -> WireReader<'a> {
        WireReader { message, rest: bytes }
    }

    /// The number and the value of the next field; `None` at the end of the message.
    pub(super) fn next(&mut self) -> Result<Option<(u32, WireValue<'a>)>, ProtobufError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| self.malformed("a field number is too large"))?;
        let value = match tag & 7 {
            0 => WireValue::Varint(self.varint()?),
            1 => {
                let bytes = self.take(8)?.try_into().map_err(|_| self.malformed("it is cut off"))?;
                WireValue::Fixed64(u64::from_le_bytes(bytes))
            }
            2 => {
                let length = self.varint()?;
                let length = usize::try_from(length).map_err(|_| self.malformed("it is cut off"))?;
                WireValue::Bytes(self.take(length)?)
            }
            _ => return Err(self.malformed("a field has a wire type that Kubernetes does not use")),
        };
        Ok(Some((number, value)))
    }

    fn varint(&mut self) -> Result<u64, ProtobufError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let [byte, rest @ ..] = self.rest else { return Err(self.malformed("it is cut off")) };
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.malformed("a number is too long"))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], ProtobufError> {
        let (taken, rest) =
            self.rest.split_at_checked(length).ok_or_else(|| self.malformed("it is cut off"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn malformed(&self, why: &'static str) -> ProtobufError {
        ProtobufError::Malformed { message: self.message, why }
    }
}

// === impl WireValue ===

impl<'a> WireValue<'a> {
    /// A number. The name of the message is for errors.
    pub(super) fn varint(self, message: &'static str) -> Result<u64, ProtobufError> {
        match self {
            WireValue::Varint(value) => Ok(value),
            // The value of a map entry that was left out.
            WireValue::Bytes([]) => Ok(0),
            WireValue::Fixed64(_) | WireValue::Bytes(_) => Err(wrong_type(message)),
        }
    }

    pub(super) fn fixed64(self, message: &'static str) -> Result<u64, ProtobufError> {
        match self {
            WireValue::Fixed64(value) => Ok(value),
            WireValue::Varint(_) | WireValue::Bytes(_) => Err(wrong_type(message)),
        }
    }

    pub(super) fn bytes(self, message: &'static str) -> Result<&'a [u8], ProtobufError> {
        match self {
            WireValue::Bytes(bytes) => Ok(bytes),
            WireValue::Varint(_) | WireValue::Fixed64(_) => Err(wrong_type(message)),
        }
    }

    pub(super) fn text(self, message: &'static str) -> Result<&'a str, ProtobufError> {
        std::str::from_utf8(self.bytes(message)?)
            .map_err(|_| ProtobufError::Malformed { message, why: "a string is not UTF-8" })
    }
}

fn wrong_type(message: &'static str) -> ProtobufError {
    ProtobufError::Malformed { message, why: "a field has the wire type of another one" }
}
