# SPDX-License-Identifier: Apache-2.0
#
# Finds LibTorch and the CUDA runtime for shardmill and, installed beside shardmillConfig.cmake, for
# its users. Torch's own package config is not run: in a CUDA build it wants nvcc and a matching
# toolkit, and it changes flags of the whole project. Only the file's place and text are used.

# Sets `out` to the folder of the first TorchConfig.cmake in: Torch_DIR, CMAKE_PREFIX_PATH, `hint`
# (where shardmill's build found it), a pip PyTorch in the active Python, the system's folders. The
# answer is kept in Torch_DIR, so that a build tree does not change its Torch with the shell.
function(shardmill_locate_torch out hint)
  if(Torch_DIR AND NOT EXISTS ${Torch_DIR}/TorchConfig.cmake)
    unset(Torch_DIR CACHE)
  endif()
  set(suffixes Torch share/cmake/Torch lib/cmake/Torch cmake/Torch
               lib/${CMAKE_LIBRARY_ARCHITECTURE}/cmake/Torch torch/share/cmake/Torch)
  set(prefixes ${CMAKE_PREFIX_PATH} $ENV{CMAKE_PREFIX_PATH})
  string(REPLACE ":" ";" prefixes "${prefixes}")
  find_path(Torch_DIR TorchConfig.cmake PATHS ${prefixes} ENV Torch_DIR
            PATH_SUFFIXES ${suffixes} NO_DEFAULT_PATH)
  if(NOT Torch_DIR AND hint)
    find_path(Torch_DIR TorchConfig.cmake PATHS ${hint} NO_DEFAULT_PATH)
  endif()
  if(NOT Torch_DIR)
    shardmill_python_torch(python_torch)
    find_path(Torch_DIR TorchConfig.cmake PATHS ${python_torch}
              PATH_SUFFIXES share/cmake/Torch NO_DEFAULT_PATH)
  endif()
  find_path(Torch_DIR TorchConfig.cmake PATHS ${CMAKE_SYSTEM_PREFIX_PATH}
            PATH_SUFFIXES ${suffixes} NO_DEFAULT_PATH)
  mark_as_advanced(Torch_DIR)
  set(${out} ${Torch_DIR} PARENT_SCOPE)
endfunction()

# Sets `out` to the folder of the module torch in the active Python. The module is only looked up:
# importing it takes seconds. torch.utils.cmake_prefix_path is share/cmake in this folder.
function(shardmill_python_torch out)
  set(${out} "" PARENT_SCOPE)
  find_program(python NAMES python3 python PATHS ENV PATH NO_DEFAULT_PATH NO_CACHE)
  if(python)
    execute_process(
      COMMAND ${python} -c "import importlib.util as u; print(u.find_spec('torch').origin, end='')"
      OUTPUT_VARIABLE file ERROR_QUIET RESULT_VARIABLE status WORKING_DIRECTORY / TIMEOUT 10)
    if(status EQUAL 0)
      cmake_path(GET file PARENT_PATH folder)
      set(${out} "${folder}" PARENT_SCOPE)
    endif()
  endif()
endfunction()

# Finds LibTorch and defines shardmill::libtorch. Sets SHARDMILL_TORCH_DIR (empty: not found),
# SHARDMILL_TORCH_VERSION and SHARDMILL_TORCH_ABI (its value of _GLIBCXX_USE_CXX11_ABI).
function(shardmill_find_torch hint)
  set(SHARDMILL_TORCH_DIR "" PARENT_SCOPE)
  shardmill_locate_torch(dir "${hint}")
  if(NOT dir)
    return()
  endif()
  # share/cmake/Torch in a pip or zip LibTorch, lib/ARCHITECTURE/cmake/Torch in Debian's.
  set(prefix ${dir})
  foreach(level RANGE 4)
    cmake_path(GET prefix PARENT_PATH prefix)
    set(api ${prefix}/include/torch/csrc/api/include)
    if(EXISTS ${api}/torch/torch.h)
      break()
    endif()
  endforeach()
  set(libraries "")
  foreach(name torch torch_cpu c10 torch_cuda c10_cuda)
    find_library(library ${name} PATHS ${prefix} PATH_SUFFIXES lib lib/${CMAKE_LIBRARY_ARCHITECTURE}
                 NO_DEFAULT_PATH NO_CACHE)
    if(library AND name STREQUAL "torch_cuda")
      # Nothing of it is called by name: with --as-needed, Debian's default, it would be dropped and
      # the program would see no GPU.
      list(APPEND libraries "-Wl,--push-state,--no-as-needed,${library},--pop-state")
    elseif(library)
      list(APPEND libraries ${library})
    elseif(NOT name MATCHES cuda)
      message(WARNING "LibTorch at ${dir} is incomplete: lib${name}.so is missing; it is not used")
      return()
    endif()
    unset(library)
  endforeach()
  if(NOT EXISTS ${api}/torch/torch.h)
    message(WARNING "LibTorch at ${dir} is incomplete: torch/torch.h is missing; it is not used")
    return()
  endif()
  list(GET libraries 2 c10)
  shardmill_torch_version(version ${prefix})
  shardmill_torch_abi(abi ${dir} ${c10})
  shardmill_check_abi(${abi} ${dir})
  if(NOT TARGET shardmill::libtorch)
    add_library(shardmill::libtorch INTERFACE IMPORTED)
    set_target_properties(shardmill::libtorch PROPERTIES
      INTERFACE_INCLUDE_DIRECTORIES "${prefix}/include;${api}"
      INTERFACE_LINK_LIBRARIES "${libraries}")
  endif()
  set(SHARDMILL_TORCH_DIR ${dir} PARENT_SCOPE)
  set(SHARDMILL_TORCH_VERSION ${version} PARENT_SCOPE)
  set(SHARDMILL_TORCH_ABI ${abi} PARENT_SCOPE)
endfunction()

function(shardmill_torch_version out prefix)
  set(${out} unknown PARENT_SCOPE)
  foreach(header torch/csrc/api/include/torch/version.h torch/headeronly/version.h)
    if(EXISTS ${prefix}/include/${header})
      file(READ ${prefix}/include/${header} text)
      if(text MATCHES "define TORCH_VERSION[ \\\n]+\"([^\"]+)\"")
        set(${out} ${CMAKE_MATCH_1} PARENT_SCOPE)
      endif()
    endif()
  endforeach()
endfunction()

# TorchConfig.cmake names the ABI up to PyTorch 2.x; later ones leave it out, so the names in
# libc10 decide.
function(shardmill_torch_abi out dir c10)
  file(READ ${dir}/TorchConfig.cmake text)
  if(text MATCHES "_GLIBCXX_USE_CXX11_ABI=([01])")
    set(${out} ${CMAKE_MATCH_1} PARENT_SCOPE)
  else()
    file(STRINGS ${c10} names REGEX "_ZN3c10.*__cxx11" LIMIT_COUNT 1)
    string(COMPARE NOTEQUAL "${names}" "" new)
    set(${out} ${new} PARENT_SCOPE)
  endif()
endfunction()

# std::string has two layouts in libstdc++. Everything that is linked together, fmt and Torch
# included, must use one: a mixture fails to link at best.
function(shardmill_check_abi abi dir)
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_QUIET ON)
  check_cxx_source_compiles("#include <string>
    #if _GLIBCXX_USE_CXX11_ABI != ${abi}
    #error other
    #endif
    int main() {}" SHARDMILL_COMPILER_USES_CXX11_ABI_${abi})
  if(SHARDMILL_COMPILER_USES_CXX11_ABI_${abi})
    return()
  endif()
  unset(SHARDMILL_COMPILER_USES_CXX11_ABI_${abi} CACHE)
  message(FATAL_ERROR
    "LibTorch at ${dir} is built with _GLIBCXX_USE_CXX11_ABI=${abi}, this build and the system's "
    "C++ libraries (fmt) with the other value, so they cannot be linked together. Use Debian's "
    "libtorch-dev (-DTorch_DIR=/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/cmake/Torch) or PyTorch 2.7 "
    "or later, or build without LibTorch (-DSHARDMILL_WITH_TORCH=OFF). If fmt was built with that "
    "value too, say -DCMAKE_CXX_FLAGS=-D_GLIBCXX_USE_CXX11_ABI=${abi}: it holds for all targets")
endfunction()

# Finds the CUDA runtime and defines shardmill::cudart: static where possible, so that programs
# start on machines without it. Sets SHARDMILL_CUDA_VERSION (empty: not found), SHARDMILL_CUDA_PATH.
function(shardmill_find_cuda torch_dir)
  set(SHARDMILL_CUDA_VERSION "" PARENT_SCOPE)
  find_package(Threads QUIET)
  find_package(CUDAToolkit QUIET)
  if(TARGET CUDA::cudart_static)
    set(libraries CUDA::cudart_static)
  elseif(TARGET CUDA::cudart)
    set(libraries CUDA::cudart)
  endif()
  if(libraries)
    set(include ${CUDAToolkit_INCLUDE_DIRS})
    set(version ${CUDAToolkit_VERSION})
  else()
    # A pip PyTorch brings the runtime as a sibling package: nvidia/cuNN or nvidia/cuda_runtime.
    cmake_path(SET nvidia NORMALIZE ${torch_dir}/../../../../nvidia)
    file(GLOB roots ${nvidia}/cu[1-9]* ${nvidia}/cuda_runtime)
    find_path(include cuda_runtime_api.h PATHS ${roots} PATH_SUFFIXES include
              NO_DEFAULT_PATH NO_CACHE)
    find_library(library NAMES libcudart_static.a PATHS ${roots} PATH_SUFFIXES lib
                 NO_DEFAULT_PATH NO_CACHE)
    if(NOT include OR NOT library)
      return()
    endif()
    file(STRINGS ${include}/cuda_runtime_api.h line REGEX "define CUDART_VERSION")
    string(REGEX MATCH "[0-9]+" number "${line}")
    math(EXPR major "${number} / 1000")
    math(EXPR minor "${number} % 1000 / 10")
    set(version ${major}.${minor})
    set(libraries ${library} Threads::Threads dl rt)
  endif()
  if(NOT TARGET shardmill::cudart)
    add_library(shardmill::cudart INTERFACE IMPORTED)
    set_target_properties(shardmill::cudart PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${include}"
                                                       INTERFACE_LINK_LIBRARIES "${libraries}")
  endif()
  list(GET include 0 first)
  set(SHARDMILL_CUDA_VERSION ${version} PARENT_SCOPE)
  set(SHARDMILL_CUDA_PATH ${first} PARENT_SCOPE)
endfunction()
