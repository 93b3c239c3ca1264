"""A party's table as it is: read, checked, turned into numbers that a model can learn from, and back into words.

settings        the section `data` of a file: where the table lies, its ids, its label, and what each column is for
cells           what a source gives: `Raw`, with a column as `Texts` or `Numbers`; how texts are read (`Reading`)
numerals, dates numbers and dates as people write them in text
files, sql, frames      CSV and Parquet; a query by SQLAlchemy; a pandas or polars frame. Each gives a `Raw`, made
                by `assembly`, with the columns of Python's objects by `typed`; `sources` picks one
roles           which columns are ids, label and features
ids, labels     ids as all parties write them; classes or numbers to learn
problems        one problem with its place, value and remedy; `TableError`, which holds all of a table
features        each column to learn from: read, chosen and checked; `telling`: whether it tells the label
check           all problems of a table at once; a summary of its columns (`column_summary`); ids in common (`overlap`)
choose          what becomes of a column if the file does not say
missing, groups         what a missing cell counts as; quantiles of numbers, groups of categories
transforms      numeric, log, bin, one_hot: fitted on training rows, kept, and applied to new rows
evidence        weight of evidence: groups, their merging, values and information value from counts of labels
fitted          all transforms of a party's table together: `fit`, `Fitted`
table           `open_table`, `open_rows`: all of the above for one party
plain           ids and numbers of a file with nothing chosen or filled in

    table = open_table(data, folder, label="classes")       # TableError lists every problem that must be mended
    fitted = table.fit(training_rows)                       # on these rows only
    features = fitted.apply(table.cells)                    # rows × len(fitted.features)
    rows = open_rows(data, folder, Fitted.restore(state))   # new rows, read and transformed as those were

**A transform never looks at the rows that it is applied to.** A row that is scored alone and among others gets the same
numbers, to the last bit. A category that was not there in the training counts as the group of rare ones, if there is
one; if not, it gets the mean of each indicator, which adds nothing to the score. As weight of evidence it is 0. A
missing number gets what was stored when the transform was fitted; a missing category is one of its own if the training
rows had any, taken together with rare ones if it is rare itself, or else unknown.

Nothing here knows other parties, a protocol or a clock. Messages name files, lines and values: they stay with the party
whose table it is.
"""
