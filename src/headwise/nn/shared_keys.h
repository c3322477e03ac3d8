// Keys and values that later layers of a run attend to as well. A layer that
// shares its own leaves them here, normed and turned; its gradient is the sum
// of all that attended to them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "headwise/context.h"
#include "headwise/tensor/temp.h"

namespace headwise {

// The keys and values of one run of a stack, forward and backward.
class SharedKeys {
 public:
  struct Layer {
    Temp k, v;    // [1, S, G, D], [1, S, G, E]
    Temp dk, dv;  // sums of later layers' gradients; absent: none came yet

    void AddGradients(Context& context, ConstTensorView k_gradient,
                      ConstTensorView v_gradient);
    // Adds the sums to the layer's own, and forgets them.
    void TakeGradients(Context& context, TensorView k_gradient,
                       TensorView v_gradient);
  };

  // Copies of k and v. A layer that is run again leaves the same.
  std::shared_ptr<Layer> Put(Context& context, int64_t layer, ConstTensorView k,
                             ConstTensorView v);
  // Null: the layer left nothing in this run.
  std::shared_ptr<Layer> Find(int64_t layer) const;

 private:
  std::map<int64_t, std::shared_ptr<Layer>> layers_;
};

}  // namespace headwise
