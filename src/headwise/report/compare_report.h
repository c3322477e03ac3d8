// One head beside many, drawn: terminal, JSON, SVG. The page: compare_page.h.
#pragma once

#include <string>

#include "headwise/base/json.h"
#include "headwise/report/svg.h"
#include "headwise/report/text.h"
#include "headwise/study/comparison.h"

namespace headwise {

// "one head", "8 heads".
std::string HeadsName(int64_t heads);

// "3.2" of a trained model, by which other commands know it; else "2".
std::string HeadName(const Comparison& comparison, int64_t head);
// "one head of width 64", "8 heads of width 8".
std::string LayerName(const HeadSet& set);

// `map` with the words as labels of rows and columns.
HeatMap WordMap(const Comparison& comparison, const Matrix& weights);

// What is kept and what is lost, in sentences of plain words.
std::vector<std::string> KeptAndLost(const Comparison& comparison,
                                     const HeadSet& set);

std::string CompareText(const Comparison& comparison, const Console& console);

Json CompareJson(const Comparison& comparison);

// The figure: every map of every set, set beside set.
std::string CompareSvg(const Comparison& comparison);

}  // namespace headwise
