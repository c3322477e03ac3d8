// Like heads as a picture: a map on which near heads look alike, and the
// matrix of all pairs with like heads beside each other.
#pragma once

#include <string>

#include "headwise/heads/similarity/similarity.h"

namespace headwise {

std::string SimilaritySvg(const Similarity& similarity, std::string_view title);

}  // namespace headwise
