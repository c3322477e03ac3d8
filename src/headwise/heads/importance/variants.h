// Running a model with heads closed, many ways at once. The residual stream
// below the first closed head is computed once for a batch; the ways that
// begin in the same layer run stacked, as extra sequences. Heads are closed by
// gates (g = 0, μ in their place), never by editing weights.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/context.h"
#include "headwise/heads/importance/objective.h"
#include "headwise/model/head_ref.h"
#include "headwise/nn/gated_sites.h"

namespace headwise {

// Outputs of heads before W_O by the name of their site, [rows, heads, E], on
// any device and of any float type.
using HeadOutputs = std::map<std::string, Tensor, std::less<>>;

// A run without any head closed: on the context's device, in the model's type.
struct CleanRun {
  HeadOutputs outputs;
  Tensor embedding;  // [rows, d] of the stack that predicts
  Tensor stream;     // [rows, d] before the final norm
  Tensor final;      // [rows, d] after it
};
// after_layer: called after each, may be empty.
CleanRun RunClean(Context& context, const Model& model,
                  const ExampleBatch& batch,
                  const std::function<void()>& after_layer = {});

// The heads closed in one run.
using HeadSet = std::vector<HeadRef>;

// Hooks that close heads[c] in the rows of the c-th stacked copy of a batch.
class StackedGates : public GatedSites {
 public:
  // replacement: what stands in for closed heads, [rows, heads, E] or the same
  // for all rows, [1, heads, E]; null, or a site that it does not name: 0.
  StackedGates(Context& context, const Model& model, const ExampleBatch& batch,
               std::span<const HeadSet> heads, const HeadOutputs* replacement);
};

// Layers that run again for this variant.
int64_t LayersToRun(const Model& model, const HeadSet& heads);

// Rows that run together: as many as products are fast with, in bounded memory.
int64_t RowsTogether(const Context& context, const Model& model);

struct VariantJob {
  std::span<const HeadSet> variants;
  const HeadOutputs* replacement = nullptr;  // as in StackedGates
  int64_t most_rows = 0;  // that run together; 0: RowsTogether
  // Called with the indices of the variants that ran together and their final
  // states x [indices · rows, d].
  std::function<void(std::span<const int64_t>, ConstTensorView)> done;
  // May be empty. Called before that, in order of execution, with the site's
  // name and the outputs of its heads, [indices · rows, heads, E], from the
  // layer on in which these variants begin.
  std::function<void(std::span<const int64_t>, std::string_view,
                     ConstTensorView)>
      outputs = {};
  std::stop_token stop;
};

// Throws Error(kCancelled) when stopped.
void RunVariants(Context& context, const Model& model,
                 const ExampleBatch& batch, const VariantJob& job);

}  // namespace headwise
