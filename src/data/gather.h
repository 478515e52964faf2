// Samples of one row become samples of the several rows that a model with a fixed batch takes.
#pragma once

#include "data/dataset.h"

namespace evoq {

// Sample i is the samples i n to i n + n - 1 of `data` one behind the other, which are its rows;
// those at the end that fill none are left over. Samples that have n rows already stay as they are,
// and so does everything where n is below 2. `place` names the data. Errors: kInvalidInput for
// fewer than n rows.
Result<std::unique_ptr<Dataset>> GatherRows(std::unique_ptr<Dataset> data, int64_t n,
                                            const std::string& place);

// The warning of rows that are left over; "" where none is.
std::string LeftOver(const std::string& place, int64_t rows, int64_t n);
// The error of fewer rows than a sample has.
Status CheckRows(const std::string& place, int64_t rows, int64_t n);

// The name of a sample of these rows: the first's and the last's.
std::string NameOf(const std::vector<Sample::Row>& rows);

}  // namespace evoq
