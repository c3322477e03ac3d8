// One head beside many, drawn: terminal, JSON, SVG, a page.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "headwise/base/json.h"
#include "headwise/drawing/svg.h"
#include "headwise/drawing/text.h"
#include "headwise/study/compare/comparison.h"

namespace headwise {

// "one head", "8 heads".
std::string HeadsName(int64_t heads);

// "3.2" of a trained model, by which other commands know it; else "2".
std::string HeadName(const Comparison& comparison, const ComparedHeads& set,
                     int64_t head);
// "one head of width 64"; where models have names "gpt2, layer 3: 8 heads of
// width 8".
std::string LayerName(const ComparedHeads& set);
// "8 heads", "8 heads of gpt2".
std::string SetName(const ComparedHeads& set);

// `weights` with the set's tokens as labels of rows and columns.
HeatMap WordMap(const ComparedHeads& set, const Matrix& weights);

// Sets that stand for the same tokens, one after another, in groups.
std::vector<std::span<const ComparedHeads>> GroupsByTokens(
    const Comparison& comparison);

// What is kept and what is lost, in sentences of plain words.
std::vector<std::string> KeptAndLost(const Comparison& comparison,
                                     const ComparedHeads& set);

std::string CompareText(const Comparison& comparison, const Console& console);

Json CompareJson(const Comparison& comparison);

// The figure: every map of every set, set beside set.
std::string CompareSvg(const Comparison& comparison);

// A page that needs neither network nor script.
std::string ComparePage(const Comparison& comparison);

}  // namespace headwise
