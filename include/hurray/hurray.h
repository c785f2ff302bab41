/*
 * libhurray: everything. Include this, or only the headers of the concepts you use; each compiles
 * on its own, as C11 and as C++17.
 *
 *   status.h        what functions return, and the sentence that explains a failure
 *   memory.h        aligned memory and pluggable allocators
 *   parallel.h      how many threads the library may use
 *   element_type.h  element types: tags, names, sizes, packing
 *   device.h        devices, memory classes, and what DLPack calls them
 *   shape.h         element counts and strides of a shape
 *   layout.h        where element [i, j, …] lies
 *   quantization.h  quantization schemes
 *   sections.h      shard, statistics, private element type, composite member
 *   buffer_handle.h what a descriptor says about a buffer
 *   descriptor_fields.h  what a descriptor says, as a struct
 *   descriptor.h    encode, decode, validate, compare
 *   print.h         the annotated table of a descriptor
 *   address.h       logical index -> element offset -> byte and bit
 *   sparse.h        what sparse and block-paged tensors store, and where
 *   verify.h        whether indices, pointers and scales in the buffers are what they must be
 *   convert_sparse.h  sparse layouts into one another, and dense to and from them
 *   pack.h          sub-byte elements <-> one byte each
 *   convert.h       one dense layout to another
 *   transcode.h     copying between strided arrangements of elements
 *   buffer.h        memory with an owner
 *   tensor.h        a descriptor with its buffers
 *   composite.h     composites: validation, partitions, finding the member of an index
 *   capsule.h       whole tensors handed over within a process
 *   adopt.h         tensors over memory that another library owns
 *   dlpack.h        the DLPack ABI, and tensors to and from it
 *   crc32c.h        the checksum of the containers
 *   io.h            where bytes come from and go to: callbacks, descriptors of open files, memory
 *   key_value.h     the metadata of a file
 *   file_writer.h   named tensors into a file, in one pass
 *   file_reader.h   named tensors out of a file: mapped, read or by callback
 *   stream_writer.h tensors one after another into a pipe, a socket, memory
 *   stream_reader.h and out of it, without I/O of its own underneath
 */
#ifndef HURRAY_HURRAY_H
#define HURRAY_HURRAY_H

#include "address.h"
#include "adopt.h"
#include "buffer.h"
#include "buffer_handle.h"
#include "capsule.h"
#include "composite.h"
#include "convert_sparse.h"
#include "convert.h"
#include "crc32c.h"
#include "descriptor.h"
#include "descriptor_fields.h"
#include "device.h"
#include "dlpack.h"
#include "element_type.h"
#include "file_reader.h"
#include "file_writer.h"
#include "io.h"
#include "key_value.h"
#include "layout.h"
#include "memory.h"
#include "pack.h"
#include "parallel.h"
#include "print.h"
#include "quantization.h"
#include "sections.h"
#include "shape.h"
#include "sparse.h"
#include "status.h"
#include "stream_reader.h"
#include "stream_writer.h"
#include "tensor.h"
#include "transcode.h"
#include "verify.h"

#endif
