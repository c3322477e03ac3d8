// Attention as pictures: the map of a head, and arcs from tokens to the ones
// they look at.
#pragma once

#include <span>
#include <string>

#include "headwise/report/svg.h"
#include "headwise/study/picture.h"

namespace headwise {

// Maps with more tokens on a side have no labels, numbers or arcs.
inline constexpr size_t kMostLabelled = 48;

// Where rows and columns are the same tokens: one line of tokens, looks back
// as arcs above it and looks ahead below, stronger ones darker; shares below a
// twentieth are left out. Otherwise two lines with the columns above.
Drawing DrawArcs(const HeatMap& map);

// Each map with its arcs, below each other, as a document. `note` stands at
// the foot.
std::string AttentionSvg(std::span<const HeatMap> maps, std::string_view title,
                         std::string_view note);

}  // namespace headwise
