// Running means of what heads give, and of its size.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "headwise/context.h"
#include "headwise/heads/importance/variants.h"

namespace headwise {

class SiteMeans {
 public:
  // Outputs on the context's device, where all but the host's are added up.
  void Add(Context& context, const HeadOutputs& outputs);

  // f32 [1, heads, E] on the host: of the outputs, and of their absolute
  // values.
  void Write(Context& context, HeadOutputs& plain, HeadOutputs& absolute) const;

 private:
  struct Sums {
    int64_t heads = 0;
    double rows = 0;
    // The host's, one a channel.
    std::vector<double> plain, absolute;
    // A device's, f32 [channels]: Σ z and Σ max(z, 0).
    Tensor device_plain, device_positive;
  };
  static void AddOnDevice(Context& context, const Tensor& values, Sums& sums);

  std::map<std::string, Sums> sums_;
};

}  // namespace headwise
