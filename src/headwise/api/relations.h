// Likeness as the library has it, for pictures of it.
#pragma once

#include "headwise/heads/similarity/similarity.h"
#include "headwise/model.h"
#include "headwise/similar.h"
#include "headwise/text_input.h"

namespace headwise {

Similarity SimilarityOf(Transformer& model, const TextInput& text,
                        const SimilarityJob& job);
// What a picture needs of it: pairs, groups and the map.
Similarity SimilarityOf(const HeadSimilarity& found);

}  // namespace headwise
