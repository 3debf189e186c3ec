# Builds for musl on this machine with musl-gcc, the machine's gcc with musl's headers and libraries (Debian's
# musl-tools). That package has neither the kernel's headers, which are the same for every C library, nor a C++ library.
# C++ is zig's where it is installed (tools/bootstrap.sh musl), with its libc++: the tests need it. Otherwise g++
# compiles the operators new and delete, which call nothing of the C library but abort, dladdr, dlopen and dlsym: both
# C libraries have these with the same types.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${CMAKE_HOST_SYSTEM_PROCESSOR})
set(CMAKE_C_COMPILER musl-gcc)
# Beside the libraries for glibc, in a folder of musl's.
set(CMAKE_INSTALL_LIBDIR lib/${CMAKE_SYSTEM_PROCESSOR}-linux-musl CACHE PATH "Where the libraries are installed")

set(headers "${CMAKE_BINARY_DIR}/kernel-headers")
file(MAKE_DIRECTORY "${headers}")
foreach(folder IN ITEMS linux asm asm-generic)
  foreach(place IN ITEMS /usr/include /usr/include/${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-gnu)
    if(EXISTS ${place}/${folder})
      file(CREATE_LINK ${place}/${folder} "${headers}/${folder}" SYMBOLIC)
    endif()
  endforeach()
endforeach()
set(CMAKE_C_FLAGS_INIT "-idirafter ${headers}")

file(GLOB zig "${CMAKE_CURRENT_LIST_DIR}/../build/venv/lib/python3*/site-packages/ziglang/zig")
if(zig)
  set(CMAKE_CXX_COMPILER "${zig}" c++ -target ${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-musl)
  set(CMAKE_CXX_FLAGS_INIT -fno-sanitize=undefined)
  set(HK_CCACHE "" CACHE INTERNAL "ccache takes `c++` for a source; zig has a cache of its own")
else()
  set(CMAKE_CXX_COMPILER g++)
endif()
