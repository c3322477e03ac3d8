// Attention as pictures: the map of a head with its arcs.
#pragma once

#include <span>
#include <string>

#include "headwise/drawing/svg.h"
#include "headwise/study/picture.h"

namespace headwise {

// Maps with more tokens on a side have no labels, numbers or arcs.
inline constexpr size_t kMostLabelled = 48;

// Each map with its arcs, below each other, as a document, with what its
// colours mean. `note` stands at the foot.
std::string AttentionSvg(std::span<const HeatMap> maps, std::string_view title,
                         std::string_view note);

}  // namespace headwise
