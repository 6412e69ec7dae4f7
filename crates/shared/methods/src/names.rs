//! Enumerations whose values people choose by name.

use std::str::FromStr;

/// A value that people choose by its name.
pub trait Named: Copy + FromStr<Err = String> {
    /// Its name.
    fn name(self) -> &'static str;
}

/// An enumeration with the names of its values: `ALL`, `name`, [`Named`](crate::names::Named) and `FromStr`,
/// whose error lists the names. Text after the word for a value ends that error.
///
/// ```
/// use kpps_methods::names::Named;
///
/// kpps_methods::names! {
///     /// A colour.
///     pub enum Colour("colour", "or give a number") {
///         /// As blood.
///         Red = "red",
///         /// As grass.
///         Green = "green",
///     }
/// }
///
/// assert_eq!("red".parse(), Ok(Colour::Red));
/// let error = "blue".parse::<Colour>().unwrap_err();
/// assert_eq!(error, "there is no colour called 'blue': known are red, green; or give a number");
/// assert_eq!(Colour::ALL.map(Named::name), ["red", "green"]);
/// ```
#[macro_export]
macro_rules! names {
    (
        $(#[$about:meta])*
        pub enum $type:ident($what:literal $(, $also:literal)?) {
            $($(#[$doc:meta])* $name:ident = $text:literal),+ $(,)?
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $type { $($(#[$doc])* $name),+ }

        impl $type {
            /// All of them.
            pub const ALL: [Self; [$($text),+].len()] = [$(Self::$name),+];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text),+ }
            }
        }

        impl $crate::names::Named for $type {
            fn name(self) -> &'static str {
                self.name()
            }
        }

        impl ::std::str::FromStr for $type {
            type Err = ::std::string::String;

            fn from_str(text: &str) -> ::std::result::Result<Self, Self::Err> {
                Self::ALL.into_iter().find(|it| it.name() == text).ok_or_else(|| {
                    let names = Self::ALL.map(Self::name).join(", ");
                    format!(concat!("there is no ", $what, " called '{}': known are {}" $(, "; ", $also)?), text, names)
                })
            }
        }
    };
}
