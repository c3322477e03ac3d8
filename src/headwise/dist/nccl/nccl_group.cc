// GPUs of ranks under NCCL. Door: dist/device_group.h.
#include <limits.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <string>

#include "headwise/backend/cuda/backend.h"
#include "headwise/dist/device_group.h"
#include "headwise/dist/nccl/library.h"
#include "headwise/error.h"
#include "headwise/tensor/slice.h"

namespace headwise::dist {
namespace {

// A GPU's place among those of all machines.
std::string NameOf(Device device) {
  char machine[HOST_NAME_MAX + 1] = {};
  gethostname(machine, HOST_NAME_MAX);
  char bus[32] = {};
  CheckCuda(cudaDeviceGetPCIBusId(bus, sizeof(bus), device.index),
            "cudaDeviceGetPCIBusId");
  return std::string(machine) + " " + bus;
}

// The same words on every rank: all look at all.
void RequireOneGpuEach(Device device, Group& group) {
  const std::vector<std::string> names = group.AllGather(NameOf(device));
  std::map<std::string, size_t> owners;
  for (size_t rank = 0; rank < names.size(); ++rank) {
    const auto [found, is_new] = owners.emplace(names[rank], rank);
    if (is_new) continue;
    throw Error(ErrorCode::kUnsupported,
                {"ranks", "a GPU of its own for each rank under NCCL",
                 "ranks " + std::to_string(found->second) + " and " +
                     std::to_string(rank) + " on the GPU " + names[rank],
                 "give each rank its own (--device cuda:N), or let them add up "
                 "in a tree"});
  }
}

class NcclGroup : public DeviceGroup {
 public:
  NcclGroup(Context& context, Group& group)
      : context_(context), nccl_(NcclLibrary::Load()) {
    ncclUniqueId id = {};
    if (group.is_first()) Require(nccl_.get_unique_id(&id));
    std::string bytes(reinterpret_cast<const char*>(&id), sizeof(id));
    group.Broadcast(bytes);
    std::memcpy(&id, bytes.data(), sizeof(id));
    CudaOf(context_);  // makes the GPU current
    Require(nccl_.comm_init_rank(&comm_, group.size(), id, group.rank()));
  }
  ~NcclGroup() override {
    if (comm_ != nullptr) nccl_.comm_destroy(comm_);
  }
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  void AllReduce(const TensorView& view) override {
    if (view.type != DType::kF32 || view.device != context_.device() ||
        !IsDense(view)) {
      throw Error(ErrorCode::kInvalidArgument,
                  {"ranks", "f32, dense, on " + ToString(context_.device()),
                   ToString(ConstTensorView(view)), ""});
    }
    Require(nccl_.all_reduce(view.data, view.data,
                             static_cast<size_t>(view.size()), ncclFloat32,
                             ncclSum, comm_, StreamOf(context_)));
  }

 private:
  void Require(ncclResult_t code) const {
    if (code == ncclSuccess) return;
    throw Error(ErrorCode::kIo, {"ranks", "NCCL to carry sums between GPUs",
                                 nccl_.error_string(code),
                                 "NCCL_DEBUG=INFO makes it say more"});
  }

  Context& context_;
  NcclLibrary nccl_;
  ncclComm_t comm_ = nullptr;
};

}  // namespace

std::unique_ptr<DeviceGroup> MakeNcclGroup(Context& context, Group& group) {
  if (context.device().is_cpu()) {
    throw Error(ErrorCode::kUnsupported,
                {"ranks", "a GPU, between which NCCL carries sums", "the CPU",
                 "take a GPU (--device cuda), or let ranks add up in a tree"});
  }
  RequireOneGpuEach(context.device(), group);
  return std::make_unique<NcclGroup>(context, group);
}

bool HasNccl() { return true; }

}  // namespace headwise::dist
