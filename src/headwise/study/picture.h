// Pictures and tables as plain data: what is drawn, not how. Studies fill them;
// drawing/ draws them in the terminal, as SVG and as HTML.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace headwise {

struct Series {
  std::string name;
  std::vector<double> x;
  std::vector<double> y;
};

struct LinePlot {
  std::string title;
  std::string x_label;
  std::string y_label;
  bool log_x = false;
  bool log_y = false;
  std::vector<Series> series;
};

// Shares of a whole, one row each: values [rows, columns] in [0, 1], NaN where
// a row cannot see the column.
struct HeatMap {
  std::string title;
  std::vector<std::string> rows;
  std::vector<std::string> columns;
  std::vector<double> values;
  // The column that every row looks from, where that is one.
  std::optional<size_t> query = std::nullopt;
};

struct StudyTable {
  std::string title;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};

using Picture = std::variant<LinePlot, HeatMap>;

}  // namespace headwise
