"""Output contracts: how a judge's reply must look, and the one way it is read.

A contract owns the instruction that ends the prompt, the JSON schema for constrained
decoding and the parser, so that the three cannot drift apart. A reply that breaks it is
`Unparsable`: no clamping, no first digit in the text, no default.
"""
