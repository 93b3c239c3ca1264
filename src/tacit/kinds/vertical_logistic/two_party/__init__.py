"""Parts of a regression on shares between two parties without a dealer, from oblivious transfer.

products    one party's features times the other's words, from punctured trees that are made once
sigmoid     the sigmoid of a shared score, by a lookup of one of many
truncation  shares modulo 2^128 divided by a power of two

No kind of training uses them yet.
"""
