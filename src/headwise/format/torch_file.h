// PyTorch's checkpoints (pytorch_model.bin): a ZIP archive of a pickle that
// names tensors and of their bytes, which lie there as they are. Nothing of the
// pickle is run (pickle.h).
#pragma once

#include <string>
#include <vector>

#include "headwise/base/mapped_file.h"
#include "headwise/tensor.h"

namespace headwise {

struct TorchTensor {
  std::string name;
  ConstTensorView view;  // into the file, dense, row-major
};

// In the order of the file; tensors may share bytes. Throws Error: kCorrupt
// naming the byte, kUnsupported for what torch.save of a state_dict does not
// write, for old files that are no archives, for element types that tensors do
// not have here, and for tensors whose elements do not lie in their order.
std::vector<TorchTensor> ReadTorchFile(const MappedFile& file,
                                       const std::string& where);

}  // namespace headwise
