// The library from outside: a tensor, and the version that is linked.
#include <headwise/tensor.h>
#include <headwise/version.h>

#include <cstdio>

int main() {
  headwise::Tensor x(headwise::DType::kF32, {1, 6, 2, 8});
  std::printf("headwise %s: %s\n", headwise::Version(),
              headwise::ToString(x.view()).c_str());
  return x.size() == 96 ? 0 : 1;
}
