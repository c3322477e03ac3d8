// Tables of sums over sequences, filled part by part of a text in one pass
// (runtime/text_pass.h): what losses, gradients and effects of heads are.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "headwise/heads/importance/objective.h"
#include "headwise/runtime/text_pass.h"

namespace headwise {

// [rows][sequences]: rows are variants, heads, or whatever is summed.
using LossTable = std::vector<std::vector<double>>;

// Bytes of a table, and back into one of the same shape.
std::string Packed(const LossTable& table);
void Unpack(std::string_view bytes, LossTable& table);

// Rows that a value of the columns is missing of (NaN).
std::vector<size_t> MissingRows(const LossTable& columns);

struct TableWork {
  std::string stage;  // as progress calls it
  std::string name;   // where it is kept; "": as the stage
  size_t rows = 0;
  std::vector<size_t> ends;  // of each part's sequences, which progress counts
  // Fills the columns of a part, [rows][sequences of it]. Those that an
  // interrupted process had are there, the others NaN. tell: the share of the
  // part that is done; throws when stopped.
  std::function<void(size_t part, LossTable& columns,
                     const std::function<void(double)>& tell)>
      run;
};

// The whole table, on all ranks.
LossTable FillTable(const PassOptions& options, const TableWork& work);

// Ends of batches that run together: each ends with the example that reaches
// `most` tokens.
std::vector<size_t> CutExamples(std::span<const TextExample> examples,
                                int64_t most);

// A name for a text: the examples' tokens, in order.
std::string TextKey(std::span<const TextExample> examples);

}  // namespace headwise
