// A build without ONNX. Door: ../onnx.h.
#include "headwise/export/onnx.h"

#include "headwise/error.h"

namespace headwise {

std::string ExportOnnx(Context& /*context*/, const Checkpoint& checkpoint,
                       const std::filesystem::path& /*out*/) {
  throw Error(ErrorCode::kUnsupported,
              {checkpoint.folder().string(), "a build with ONNX", "none",
               "install libonnx-dev and libprotobuf-dev, and build again"});
}

}  // namespace headwise
