//! A model of the 8254x network cards: function and timing.
