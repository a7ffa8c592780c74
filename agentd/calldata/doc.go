// Package calldata is the canonical binary encoding of the manager's protocol:
// null, booleans, addresses, integers of any size, bytes, strings, arrays and
// maps (manager facts, section 1).
//
// A value has exactly one encoding, and only that one is accepted: numbers are
// minimal, map keys ascend by their bytes and are unique, text is strict UTF-8,
// and nothing follows the value. So equal values have equal bytes, and whatever
// decodes encodes to the same bytes again.
//
// # Typed values
//
// [Marshal] and [Unmarshal] map Go types to calldata. A struct is a map whose
// keys stand in the field tags:
//
//		Token *string `calldata:"host_genvm_id,default"`
//
//	  - a key of the input that no field names is refused, and so is a missing
//	    one, unless its tag says default or default=TEXT: then the field takes the
//	    zero value, or TEXT read as the field's type
//	  - a pointer is its element or null; a slice, map or [Raw] with the option
//	    null is null when nil
//	  - []byte and [N]byte are bytes, the latter of exactly that length; other
//	    slices and arrays are arrays, and so are those of named byte types
//	  - map[string]T is a map, any holds any value (see [Decode])
//	  - [Int], [U256], [Address] and [Raw] are what their names say
//	  - a string type with a method Variants() []string is an enum
//	  - types with UnmarshalText and MarshalText are strings
//	  - a struct with the field _ struct{} `calldata:",oneof"` is a map with one
//	    key: exactly one of its pointer fields is set
//	  - a struct with the field _ struct{} `calldata:",array"` is an array of its
//	    fields in their order
//	  - [Marshaler] and [Unmarshaler] take over for everything else
//
// # Hostile input
//
// Nothing is allocated for a length that the input does not have; decoding takes
// time linear in the input, integers included; containers nest at most
// [MaxDepth] deep. Errors are [*Error] values that say what is wrong, and where.
//
// All functions are safe for concurrent use.
package calldata
