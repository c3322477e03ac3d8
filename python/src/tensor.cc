// Tensors and DLPack. Door: tensor.h.
#include "tensor.h"

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "dlpack.h"
#include "gil.h"
#include "headwise/error.h"
#include "headwise/export_model.h"
#include "headwise/model.h"

namespace headwise::python {
namespace {

struct TypePair {
  DType type;
  DlType dl;
  const char* format;  // of the buffer protocol; null: it has none
};
constexpr std::array kTypes = {
    TypePair{DType::kF32, {2, 32, 1}, "f"},
    TypePair{DType::kF64, {2, 64, 1}, "d"},
    TypePair{DType::kBF16, {4, 16, 1}, nullptr},
    TypePair{DType::kF16, {2, 16, 1}, "e"},
    TypePair{DType::kI32, {0, 32, 1}, "i"},
    TypePair{DType::kI64, {0, 64, 1}, "q"},
    TypePair{DType::kU8, {1, 8, 1}, "B"},
    TypePair{DType::kI16, {0, 16, 1}, "h"},
    TypePair{DType::kI8, {0, 8, 1}, "b"},
    TypePair{DType::kBool, {6, 8, 1}, "?"},
};

const TypePair& PairOf(DType type) {
  for (const TypePair& pair : kTypes) {
    if (pair.type == type) return pair;
  }
  throw Error(ErrorCode::kUnsupported,
              {"tensor", "a type that NumPy and DLPack have", Name(type),
               "make it f32 first"});
}

[[noreturn]] void Refuse(const char* expected, std::string found) {
  throw Error(ErrorCode::kInvalidArgument,
              {"tensor", expected, std::move(found), ""});
}

std::vector<int64_t> Numbers(const std::array<int64_t, kMaxRank>& all,
                             int rank) {
  return {all.begin(), all.begin() + rank};
}

// ---- The buffer protocol, of host memory in a type that it knows.

// A tensor that has it: NumPy reads it in place.
struct HostBuffer {
  TensorView view;
  std::shared_ptr<void> owner;
};

py::buffer_info InfoOf(const HostBuffer& buffer) {
  const TensorView& view = buffer.view;
  const auto bytes = ElementSize(view.type);
  std::vector<py::ssize_t> shape, stride;
  for (int i = 0; i < view.rank; ++i) {
    shape.push_back(view.shape[i]);
    stride.push_back(view.stride[i] * bytes);
  }
  return {view.data, bytes, PairOf(view.type).format, view.rank, shape, stride};
}

py::object AsArray(HostBuffer buffer) {
  return py::module_::import("numpy").attr("asarray")(
      py::cast(std::move(buffer)));
}

// ---- DLPack, outward.

struct Export {
  DlManaged managed = {};
  std::array<int64_t, kMaxRank> shape = {}, stride = {};
  std::shared_ptr<Context> context;  // of memory on a device
  std::shared_ptr<void> owner;
};

// Who took the memory may have work on it under way, on streams that it did not
// tell of: memory that goes back to our queue waits for that. Any thread calls
// this, with the GIL or without.
void LetGo(Export* made) {
  if (made->context) {
    try {
      made->context->SynchronizeDevice();
    } catch (const Error&) {
      // A device that fails has no work left to wait for.
    }
  }
  delete made;
}

// As __dlpack__ names streams: none is the default one; 1 and 2 are CUDA's own
// names of its default streams.
void* StreamOf(const py::object& stream) {
  constexpr int64_t kDefault = 1;
  const int64_t number = stream.is_none() ? kDefault : stream.cast<int64_t>();
  if (number == 0) {
    throw py::value_error(
        "stream 0 is ambiguous: 1 is the default stream, 2 "
        "that of the thread");
  }
  return reinterpret_cast<void*>(static_cast<uintptr_t>(number));
}

py::tuple DlDeviceOf(const PyTensor& tensor) {
  const Device device = tensor.view.device;
  return py::make_tuple(device.is_cpu() ? kDlCpu : kDlCuda,
                        static_cast<int>(device.index));
}

// max_version is that of who asks; the oldest form is read by all.
py::capsule ToDlpack(const PyTensor& tensor, const py::object& stream,
                     const py::object& max_version, const py::object& device,
                     const py::object& copy) {
  if ((!copy.is_none() && copy.cast<bool>()) ||
      (!device.is_none() && !device.equal(DlDeviceOf(tensor)))) {
    throw py::buffer_error("a tensor is handed on where it lies, not copied");
  }
  const TensorView& view = tensor.view;
  // -1: the taker waits by itself.
  const bool waits = stream.is_none() || stream.cast<int64_t>() != -1;
  if (tensor.context && waits) tensor.context->MakeWait(StreamOf(stream));
  auto made = std::make_unique<Export>();
  made->shape = view.shape;
  made->stride = view.stride;
  made->context = tensor.context;
  made->owner = tensor.owner;
  DlTensor& dl = made->managed.tensor;
  dl.data = view.data;
  dl.device = {view.device.is_cpu() ? kDlCpu : kDlCuda, view.device.index};
  dl.rank = view.rank;
  dl.type = PairOf(view.type).dl;
  dl.shape = made->shape.data();
  dl.stride = made->stride.data();
  made->managed.owner = made.get();
  made->managed.free = [](DlManaged* managed) {
    LetGo(static_cast<Export*>(managed->owner));
  };
  py::capsule capsule(&made->managed, kDlName, [](PyObject* object) {
    if (PyCapsule_IsValid(object, kDlName) == 0) return;  // it was taken
    auto* managed =
        static_cast<DlManaged*>(PyCapsule_GetPointer(object, kDlName));
    managed->free(managed);
  });
  made.release();
  return capsule;
}

// ---- DLPack, inward.

DType TypeOf(const DlType& type) {
  for (const TypePair& pair : kTypes) {
    if (pair.dl.code == type.code && pair.dl.bits == type.bits &&
        type.lanes == 1) {
      return pair.type;
    }
  }
  Refuse("elements of f32, f64, bf16, f16, i8 to i64, u8 or bool",
         "code " + std::to_string(type.code) + ", " +
             std::to_string(type.bits) + " bits");
}

Device DeviceOf(const DlDevice& device) {
  if (device.type == kDlCpu) return Device::Cpu();
  if (device.type == kDlCuda) return Device::Cuda(device.index);
  Refuse("memory of the host or of CUDA",
         "device type " + std::to_string(device.type));
}

TensorView ViewOf(const DlTensor& dl) {
  if (dl.rank < 0 || dl.rank > kMaxRank) {
    Refuse("at most six sizes", std::to_string(dl.rank));
  }
  const Shape shape(std::span(dl.shape, static_cast<size_t>(dl.rank)));
  TensorView view(static_cast<char*>(dl.data) + dl.offset, TypeOf(dl.type),
                  shape, DeviceOf(dl.device));
  for (int i = 0; i < dl.rank && dl.stride != nullptr; ++i) {
    view.stride[i] = dl.stride[i];
  }
  return view;
}

// Who gives is told our queue, and makes it wait for what it still does; memory
// of the host has none. A capsule is one that was given already.
py::object Capsule(const py::object& object, const py::object& stream) {
  if (PyCapsule_CheckExact(object.ptr()) != 0) return object;
  if (!py::hasattr(object, "__dlpack__")) {
    Refuse("an array with __dlpack__",
           py::str(py::type::of(object)).cast<std::string>());
  }
  const bool on_host =
      py::hasattr(object, "__dlpack_device__") &&
      py::tuple(object.attr("__dlpack_device__")())[0].cast<int>() == kDlCpu;
  return stream.is_none() || on_host
             ? object.attr("__dlpack__")()
             : object.attr("__dlpack__")(py::arg("stream") = stream);
}

}  // namespace

PyTensor FromDlpack(const py::object& object, const py::object& stream) {
  const py::object given = Capsule(object, stream);
  if (PyCapsule_IsValid(given.ptr(), kDlName) == 0) {
    Refuse("a capsule \"dltensor\"", "another");
  }
  auto* managed =
      static_cast<DlManaged*>(PyCapsule_GetPointer(given.ptr(), kDlName));
  PyTensor tensor;
  tensor.view = ViewOf(managed->tensor);
  PyCapsule_SetName(given.ptr(), kDlUsed);
  tensor.owner = std::shared_ptr<void>(managed, [](void* data) {
    WithPython([&] {
      auto* one = static_cast<DlManaged*>(data);
      if (one->free != nullptr) one->free(one);
    });
  });
  return tensor;
}

namespace {

py::object Numpy(const PyTensor& tensor) {
  if (tensor.view.device.is_cpu() && PairOf(tensor.view.type).format) {
    return AsArray({tensor.view, tensor.owner});
  }
  // Memory of another library on a GPU comes by a queue made for it.
  Context host({.threads = 1});
  const std::shared_ptr<Context> context =
      tensor.context ? tensor.context
                     : std::make_shared<Context>(ContextOptions{
                           .threads = 1, .device = tensor.view.device});
  auto copy = std::make_shared<Tensor>();
  {
    const Released released;
    context->SynchronizeDevice();  // streams of whoever wrote it
    Tensor there = CopyToHost(*context, tensor.view);
    const auto sizes = std::span(tensor.view.shape)
                           .first(static_cast<size_t>(tensor.view.rank));
    *copy = Tensor(there.type() == DType::kBF16 ? DType::kF32 : there.type(),
                   Shape(sizes));
    CopyTensor(host, there.view(), copy->view());
  }
  return ToNumpy(std::move(copy));
}

void Assign(const PyTensor& to, const PyTensor& from) {
  Context host({.threads = 1});
  Context& context = to.context     ? *to.context
                     : from.context ? *from.context
                                    : host;
  const Released released;
  context.SynchronizeDevice();  // streams of whoever wrote them
  CopyTensor(context, from.view, to.view);
}

}  // namespace

py::object ToNumpy(std::shared_ptr<Tensor> tensor) {
  if (tensor->size() == 0 && tensor->rank() == 0) return py::none();
  const TensorView view = tensor->view();
  return AsArray({view, std::move(tensor)});
}

py::object ToNumpy(Tensor tensor) {
  return ToNumpy(std::make_shared<Tensor>(std::move(tensor)));
}

void AddTensors(py::module_& module) {
  py::class_<HostBuffer> buffers(module, "_Buffer", py::buffer_protocol());
  buffers.def_buffer([](HostBuffer& buffer) { return InfoOf(buffer); });
  // One without a value has nothing to show, and NumPy would look.
  buffers.def_static("__new__", [](const py::args&) -> py::object {
    throw py::type_error("headwise makes its buffers");
  });
  py::class_<PyTensor>(module, "Tensor",
                       "Memory of the host or of a GPU, taken from any array "
                       "with __dlpack__ and handed on by it, without a copy.")
      .def(py::init([](const py::object& array, const py::object& stream) {
             return FromDlpack(array, stream);
           }),
           py::arg("array"), py::arg("stream") = py::none())
      .def_property_readonly("shape",
                             [](const PyTensor& tensor) {
                               return py::tuple(py::cast(Numbers(
                                   tensor.view.shape, tensor.view.rank)));
                             })
      .def_property_readonly("strides",
                             [](const PyTensor& tensor) {
                               return py::tuple(py::cast(Numbers(
                                   tensor.view.stride, tensor.view.rank)));
                             })
      .def_property_readonly(
          "dtype",
          [](const PyTensor& tensor) { return Name(tensor.view.type); })
      .def_property_readonly(
          "device",
          [](const PyTensor& tensor) { return ToString(tensor.view.device); })
      .def_property_readonly(
          "pointer",
          [](const PyTensor& tensor) {
            return reinterpret_cast<uintptr_t>(tensor.view.data);
          })
      .def_property_readonly(
          "stream",
          [](const PyTensor& tensor) -> std::optional<uintptr_t> {
            if (!tensor.context) return std::nullopt;
            return reinterpret_cast<uintptr_t>(tensor.context->stream());
          },
          "The cudaStream_t that writes it, for __dlpack__ of what goes into "
          "it; None on the host and of another library's memory.")
      .def("__dlpack__", &ToDlpack, py::kw_only(),
           py::arg("stream") = py::none(), py::arg("max_version") = py::none(),
           py::arg("dl_device") = py::none(), py::arg("copy") = py::none())
      .def("__dlpack_device__", &DlDeviceOf)
      .def("numpy", &Numpy)
      .def("assign", &Assign, py::arg("other"))
      .def("__repr__", [](const PyTensor& tensor) {
        return "Tensor(" + ToString(ConstTensorView(tensor.view)) + ")";
      });
}

}  // namespace headwise::python
