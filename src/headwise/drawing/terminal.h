// Tables and pictures drawn in text, for a terminal or a pipe of any width.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "headwise/drawing/text.h"
#include "headwise/study/picture.h"

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

// Tokens one after another, wrapped, each shaded by the root of its share of
// `largest`: by background colour where the console has colours, else by a bar
// below the token.
std::string DrawShadedTokens(std::span<const std::string> tokens,
                             std::span<const float> shares, float largest,
                             const Console& console);

// One line: "sat → cat .61, The .20".
struct KeyList {
  std::string query;
  std::vector<std::pair<std::string, double>> keys;
};
std::string DrawKeyLists(std::span<const KeyList> lists,
                         const Console& console);

std::string DrawPicture(const Picture& picture, const Console& console);

}  // namespace headwise
