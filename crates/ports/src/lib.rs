//! Where frames enter and leave a real system.
