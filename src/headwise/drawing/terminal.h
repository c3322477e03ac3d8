// Tables and pictures drawn in text, for a terminal or a pipe of any width.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "headwise/drawing/text.h"
#include "headwise/study/picture.h"
#include "headwise/study/study.h"

namespace headwise {

// First column to the left, wrapped where it must be, the others to the right.
// Where the width does not suffice, each row becomes a block of its own.
std::string DrawTable(const StudyTable& table, const Console& console);

// Cells of shares, one row after another, that fit beside labels of
// `label_width` columns. Cells of ≥ 5 columns hold a bar and the share,
// narrower ones the bar alone; columns that do not fit are left out.
class CellRows {
 public:
  // `largest`: the share drawn as a full bar.
  CellRows(const Console& console, int label_width, size_t columns,
           double largest);

  std::string Labels(const std::vector<std::string>& columns) const;
  std::string Row(std::string_view label, std::span<const double> values) const;
  // How many columns there is no room for.
  size_t left_out() const { return columns_ - shown_; }

 private:
  Console console_;
  int label_width_;
  size_t columns_;
  double largest_;
  int cell_;      // columns of text per cell
  size_t shown_;  // cells per row
};

std::string DrawPicture(const Picture& picture, const Console& console);

}  // namespace headwise
