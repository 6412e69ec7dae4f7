//! Refuses documents with numbers that are not finite.
//!
//! JSON has no such numbers: a serializer would write null, which means that a quantity was not observed.

use serde::ser::{self, Serialize, Serializer};
use serde_json::Error;

/// Whether each floating-point number within `document` is finite.
///
/// # Errors
/// The first number that is not finite.
pub(crate) fn check(document: &impl Serialize) -> Result<(), Error> {
    document.serialize(Finite)
}

/// A serializer that only checks floating-point numbers.
#[derive(Clone, Copy)]
struct Finite;

macro_rules! nothing {
    ($($method:ident($type:ty))*) => {
        $(fn $method(self, _: $type) -> Result<(), Error> { Ok(()) })*
    };
}

impl Serializer for Finite {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    nothing! {
        serialize_bool(bool) serialize_char(char) serialize_str(&str) serialize_bytes(&[u8])
        serialize_i8(i8) serialize_i16(i16) serialize_i32(i32) serialize_i64(i64) serialize_i128(i128)
        serialize_u8(u8) serialize_u16(u16) serialize_u32(u32) serialize_u64(u64) serialize_u128(u128)
        serialize_unit_struct(&'static str)
    }
    fn serialize_f32(self, value: f32) -> Result<(), Error> {
        self.serialize_f64(value.into())
    }
    fn serialize_f64(self, value: f64) -> Result<(), Error> {
        if value.is_finite() { Ok(()) } else { Err(ser::Error::custom(format!("{value} is not finite"))) }
    }
    fn serialize_none(self) -> Result<(), Error> {
        Ok(())
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }
    fn serialize_unit(self) -> Result<(), Error> {
        Ok(())
    }
    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Result<(), Error> {
        Ok(())
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }
    fn serialize_seq(self, _: Option<usize>) -> Result<Self, Error> {
        Ok(self)
    }
    fn serialize_tuple(self, _: usize) -> Result<Self, Error> {
        Ok(self)
    }
    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self, Error> {
        Ok(self)
    }
    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, Error> {
        Ok(self)
    }
    fn serialize_map(self, _: Option<usize>) -> Result<Self, Error> {
        Ok(self)
    }
    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, Error> {
        Ok(self)
    }
    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, Error> {
        Ok(self)
    }
}

/// The parts of a compound value, by the method that takes one.
macro_rules! parts {
    ($($compound:ident: $method:ident($($name:ty)?))*) => {
        $(impl ser::$compound for Finite {
            type Ok = ();
            type Error = Error;
            fn $method<T: Serialize + ?Sized>(&mut self, $(_: $name,)? value: &T) -> Result<(), Error> {
                value.serialize(*self)
            }
            fn end(self) -> Result<(), Error> {
                Ok(())
            }
        })*
    };
}

parts! {
    SerializeSeq: serialize_element()
    SerializeTuple: serialize_element()
    SerializeTupleStruct: serialize_field()
    SerializeTupleVariant: serialize_field()
    SerializeStruct: serialize_field(&'static str)
    SerializeStructVariant: serialize_field(&'static str)
}

impl ser::SerializeMap for Finite {
    type Ok = ();
    type Error = Error;
    fn serialize_key<T: Serialize + ?Sized>(&mut self, _: &T) -> Result<(), Error> {
        Ok(())
    }
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        value.serialize(*self)
    }
    fn end(self) -> Result<(), Error> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::Setting;
    use std::collections::BTreeMap;

    #[test]
    fn a_number_that_is_not_finite_is_found_wherever_it_is() {
        let bad = f64::NAN;
        assert!(check(&(1.0, Some([2.0f32]), "words", None::<f64>)).is_ok());
        assert!(
            check(&[1.0, bad]).is_err() && check(&(1, bad)).is_err() && check(&Some(f32::INFINITY)).is_err()
        );
        assert!(check(&BTreeMap::from([("a", vec![bad])])).is_err());
        assert!(check(&Setting::Number(bad)).is_err() && check(&Setting::Number(1.0)).is_ok());
        let cpu = crate::Cpu { idle_polls: Some(bad), ..crate::Cpu::default() };
        assert!(check(&cpu).is_err());
    }
}
