// Means of what heads give, and of its size: sums of parts of a text, added in
// the order of the parts.
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
  SiteMeans() = default;
  // Of the outputs of one run, on the context's device, which adds them up.
  SiteMeans(Context& context, const HeadOutputs& outputs);

  void Add(const SiteMeans& other);

  // f32 [1, heads, E] on the host: of the outputs, and of their absolute
  // values.
  void Write(HeadOutputs& plain, HeadOutputs& absolute) const;

  // As a message.
  std::string Pack() const;
  static SiteMeans Unpack(const std::string& bytes);

 private:
  struct Sums {
    int64_t heads = 0;
    double rows = 0;
    std::vector<double> plain, absolute;  // one a channel
  };
  static void AddOnDevice(Context& context, const Tensor& values, Sums& sums);

  std::map<std::string, Sums> sums_;
};

}  // namespace headwise
