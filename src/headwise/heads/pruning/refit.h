// Repair by least squares: the output matrix of a layer that lost heads is
// fitted anew so that its output on a text is near the original's.
//
// Inputs and targets are those of the original model. Layers are fitted apart,
// and earlier ones do not feed their errors to later ones: one pass over the
// text serves every layer and every set of heads, a layer's error is a plain
// number, and a fit cannot chase mistakes that a later tuning removes better.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "headwise/head_ref.h"
#include "headwise/heads/pruning/moments.h"
#include "headwise/heads/pruning/remove.h"
#include "headwise/prune.h"

namespace headwise {

// Whether a bias may be made where the layer has none.
enum class NewBias : uint8_t { kRefused, kAllowed };

struct RefitText {
  std::span<const TextExample> fit;    // fits, and chooses the ridge
  std::span<const TextExample> judge;  // measures LayerError alone
};

// Text to fit encoders by: every other example cut into pieces of 8, 16 and 32
// tokens, each framed as the example was. A sentence's attention is not that of
// a long window, whose sinks and means differ: what is fitted on one length
// alone is wrong on others.
std::vector<TextExample> OfMixedLengths(std::span<const TextExample> examples);

// The largest of `ridges` with an error of at most the least one's, more by
// this share: errors within it are not told apart, and a larger ridge stays
// nearer to the whole model.
double ChooseRidge(std::span<const double> ridges,
                   std::span<const double> errors, double slack);

// Replaces the output weights (and biases) in `changed`, as RemoveHeads made
// them, of every layer that lost heads and kept some; whatever bias `changed`
// has there is replaced where one may be fitted. One of `fit`'s four quarters
// chooses the ridge, with a slack of inputs over rows: the shorter the text,
// the nearer the weights stay to the old ones. `fit` needs two examples.
std::vector<LayerError> RefitOutputs(Context& context, const Model& model,
                                     std::span<const HeadRef> removed,
                                     const RefitText& text, NewBias bias,
                                     const CorpusOptions& options,
                                     ChangedTensors& changed);

}  // namespace headwise
