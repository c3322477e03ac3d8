# Debian packages of the components, by `cpack -G DEB`: headwise (the program),
# libheadwiseM.N (the shared libraries), libheadwise-dev and, where the package
# is built, python3-headwise.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VENDOR "Headwise")
# Who makes packages is named as of Debian's own tools.
set(CPACK_PACKAGE_CONTACT "Headwise maintainers <maintainers@headwise.invalid>")
if(DEFINED ENV{DEBEMAIL} AND DEFINED ENV{DEBFULLNAME})
  set(CPACK_PACKAGE_CONTACT "$ENV{DEBFULLNAME} <$ENV{DEBEMAIL}>")
endif()
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(library_package
    "libheadwise${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
set(CPACK_COMPONENTS_ALL headers)
if(HEADWISE_BUILD_PROGRAM)
  list(APPEND CPACK_COMPONENTS_ALL program)
endif()
if(HEADWISE_STATIC)
  # Headers to compile with, as much as archives to link with.
  set(CPACK_DEBIAN_HEADERS_PACKAGE_DEPENDS "libfmt-dev, libhwy-dev")
  if(NOT HEADWISE_OPERATOR_ONLY)
    string(APPEND CPACK_DEBIAN_HEADERS_PACKAGE_DEPENDS ", libpcre2-dev, \
libutf8proc-dev, libsentencepiece-dev, libxxhash-dev, zlib1g-dev, \
liblzma-dev, libzstd-dev")
  endif()
else()
  list(APPEND CPACK_COMPONENTS_ALL library)
  set(CPACK_DEBIAN_HEADERS_PACKAGE_DEPENDS
      "${library_package} (= ${PROJECT_VERSION})")
endif()

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME headwise)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS libopenblas0-pthread)
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION
    "Looks into the attention heads of a model\n Profiles every head, names \
its role, ranks, patches and prunes heads, and draws reports.")

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME ${library_package})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_RECOMMENDS libopenblas0-pthread)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION
    "Multi-head attention that can be observed, shared libraries\n \
libheadwise_operator (the operator and MultiHeadAttention) and libheadwise \
(that and models, profiles, training).")

if(TARGET headwise_python)
  list(APPEND CPACK_COMPONENTS_ALL python)
  math(EXPR next_python "${Python3_VERSION_MINOR} + 1")
  set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-headwise)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
  # The module is of one version of Python.
  set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS
      "python3 (>= 3.${Python3_VERSION_MINOR}~), python3 (<< 3.${next_python}), \
python3-numpy, ${library_package} (= ${PROJECT_VERSION})")
  set(CPACK_DEBIAN_PYTHON_PACKAGE_SUGGESTS python3-notebook)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA
      "${PROJECT_SOURCE_DIR}/python/debian/postinst"
      "${PROJECT_SOURCE_DIR}/python/debian/prerm")
  set(CPACK_COMPONENT_PYTHON_DESCRIPTION
      "Looks into the attention heads of a model, from Python\n Runs models \
with named activations, hooks and edits of heads; profiles, roles, rankings, \
patching and pictures.")
  # Where its library is while packages are made.
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS
      "${PROJECT_BINARY_DIR}/src/headwise")
endif()

set(CPACK_DEBIAN_HEADERS_PACKAGE_NAME libheadwise-dev)
set(CPACK_DEBIAN_HEADERS_PACKAGE_SECTION libdevel)
set(CPACK_COMPONENT_HEADERS_DESCRIPTION
    "Multi-head attention that can be observed, development files\n \
Headers, and what find_package and pkg-config read.")
include(CPack)
