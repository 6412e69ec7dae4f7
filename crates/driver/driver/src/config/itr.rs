//! Interrupt throttling as people write it: the words of [`Itr`], and the numbers of the module parameter
//! `InterruptThrottleRate` of Intel's drivers.

use super::Itr;
use core::fmt;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Unexpected, Visitor};

impl<'de> Deserialize<'de> for Itr {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Words)
    }
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Key {
    Fixed,
}

struct Words;

impl<'de> Visitor<'de> for Words {
    type Value = Itr;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (least, most) = (Itr::RATES.start(), Itr::RATES.end());
        write!(
            f,
            "off (or 0), dynamic (1), conservative (3), ratio, or a rate of {least} to {most} interrupts a second"
        )
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Itr, E> {
        match (number, u32::try_from(number)) {
            (0, _) => Ok(Itr::Off),
            (1, _) => Ok(Itr::Dynamic),
            (3, _) => Ok(Itr::Conservative),
            (_, Ok(rate)) if Itr::RATES.contains(&rate) => Ok(Itr::Fixed(rate)),
            _ => Err(E::invalid_value(Unexpected::Unsigned(number), &self)),
        }
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Itr, E> {
        match u64::try_from(number) {
            Ok(number) => self.visit_u64(number),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(number), &self)),
        }
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<Itr, E> {
        match word {
            "off" => Ok(Itr::Off),
            "dynamic" => Ok(Itr::Dynamic),
            "conservative" => Ok(Itr::Conservative),
            "ratio" => Ok(Itr::Ratio),
            _ => match word.parse() {
                Ok(number) => self.visit_u64(number),
                Err(_) => Err(E::invalid_value(Unexpected::Str(word), &self)),
            },
        }
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Itr, M::Error> {
        match map.next_key::<Key>()? {
            Some(Key::Fixed) => Ok(Itr::Fixed(map.next_value()?)),
            None => Err(M::Error::missing_field("fixed")),
        }
    }
}
