/*
 * Devices (spec 8.2): a place for bytes as a value. A Device may hold any pair of kind and memory
 * class; whether a buffer may be there is for the descriptor to say.
 */
#include "arguments.h"
#include "core.h"

typedef struct DeviceObject {
    PyObject_HEAD HurrayDevice value;
} DeviceObject;

static HurrayDevice value_of(PyObject *self) { return ((DeviceObject *)self)->value; }

/* ---- what other files use ---- */

static bool is_plain_cpu(HurrayDevice device) {
    return device.tag == HURRAY_DEVICE_CPU && device.memory_class == HURRAY_MEMORY_STANDARD &&
           device.device_id == 0;
}

PyObject *device_new(CoreState *state, HurrayDevice device) {
    if (is_plain_cpu(device) && state->cpu != NULL) return Py_NewRef(state->cpu);
    PyObject *self = state->DeviceType->tp_alloc(state->DeviceType, 0);
    if (self != NULL) ((DeviceObject *)self)->value = device;
    return self;
}

bool device_as_value(CoreState *state, PyObject *object, const char *argument, HurrayDevice *out) {
    if (!Py_IS_TYPE(object, state->DeviceType)) {
        PyErr_Format(PyExc_TypeError, "%s must be a hurray.Device, not %.200s", argument,
                     Py_TYPE(object)->tp_name);
        return false;
    }
    *out = value_of(object);
    return true;
}

/* ---- the constructor ---- */

/* What the library knows about a byte that has names: the kind of a device, or a memory class. */
typedef struct NamedByte {
    const char *argument;
    HurrayStatus (*from_name)(const char *name, uint8_t *out);
    HurrayStatus (*check)(uint8_t byte);
    const char *(*name)(uint8_t byte);
} NamedByte;

static const NamedByte kind_byte = {"kind", hurray_device_from_name, hurray_device_check_tag,
                                    hurray_device_name};
static const NamedByte class_byte = {"memory_class", hurray_memory_class_from_name,
                                     hurray_memory_class_check, hurray_memory_class_name};

/* Spec 8.2 wants one exception for unknown names, bytes and types of argument alike. */
static bool read_named_byte(CoreState *state, const NamedByte *kind, PyObject *object,
                            uint8_t *out) {
    HurrayStatus status;
    if (PyUnicode_Check(object)) {
        const char *name = argument_as_string(object, kind->argument);
        if (name == NULL) { /* a null character, or half of a surrogate pair: no name has one */
            if (!PyErr_ExceptionMatches(PyExc_ValueError)) return false;
            PyErr_Clear();
            argument_refuse(state->InvalidDescriptorError, kind->argument, object,
                            "a name or a wire byte, 0 to 255");
            return false;
        }
        status = kind->from_name(name, out);
    } else if (PyIndex_Check(object)) {
        int64_t number;
        int overflow;
        if (!argument_as_i64(object, kind->argument, &number, &overflow)) return false;
        if (overflow != 0 || number < 0 || number > UINT8_MAX) {
            argument_refuse(state->InvalidDescriptorError, kind->argument, object,
                            "a name or a wire byte, 0 to 255");
            return false;
        }
        *out = (uint8_t)number;
        status = kind->check(*out);
    } else {
        PyErr_Format(state->InvalidDescriptorError,
                     "%s is of type %.200s; expected a name or a wire byte", kind->argument,
                     Py_TYPE(object)->tp_name);
        return false;
    }
    if (status == HURRAY_OK) return true;
    raise_status(state, status);
    return false;
}

static bool read_device_id(CoreState *state, PyObject *object, int32_t *out) {
    int64_t number;
    int overflow;
    if (!argument_as_i64(object, "device_id", &number, &overflow)) return false;
    if (overflow != 0 || number < 0 || number > INT32_MAX) {
        argument_refuse(state->InvalidDescriptorError, "device_id", object, "0 to 2**31 - 1");
        return false;
    }
    *out = (int32_t)number;
    return true;
}

enum {
    KIND,
    DEVICE_ID,
    MEMORY_CLASS,
    ARGUMENT_COUNT
};

static const Signature device_signature = {
    "Device", {{"kind", ARGUMENT_REQUIRED}, {"device_id", 0}, {"memory_class", 0}}};

static PyObject *device_tp_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    CoreState *state = PyType_GetModuleState(type);
    PyObject *values[ARGUMENT_COUNT];
    HurrayDevice device = {HURRAY_DEVICE_CPU, HURRAY_MEMORY_STANDARD, 0};
    if (!arguments_parse_new(&device_signature, args, kwargs, values) ||
        !read_named_byte(state, &kind_byte, values[KIND], &device.tag)) {
        return NULL;
    }
    if (values[DEVICE_ID] != NULL && !read_device_id(state, values[DEVICE_ID], &device.device_id)) {
        return NULL;
    }
    if (values[MEMORY_CLASS] != NULL &&
        !read_named_byte(state, &class_byte, values[MEMORY_CLASS], &device.memory_class)) {
        return NULL;
    }
    return device_new(state, device);
}

/* ---- attributes ---- */

static PyObject *name_or_private(const char *name) {
    return PyUnicode_FromString(name != NULL ? name : "private");
}

static PyObject *get_kind(PyObject *self, void *closure) {
    (void)closure;
    return name_or_private(hurray_device_name(value_of(self).tag));
}

static PyObject *get_memory_class(PyObject *self, void *closure) {
    (void)closure;
    return name_or_private(hurray_memory_class_name(value_of(self).memory_class));
}

static PyObject *get_tag(PyObject *self, void *closure) {
    (void)closure;
    return PyLong_FromLong(value_of(self).tag);
}

static PyObject *get_memory_class_tag(PyObject *self, void *closure) {
    (void)closure;
    return PyLong_FromLong(value_of(self).memory_class);
}

static PyObject *get_device_id(PyObject *self, void *closure) {
    (void)closure;
    return PyLong_FromLong(value_of(self).device_id);
}

static PyObject *get_is_private(PyObject *self, void *closure) {
    (void)closure;
    return PyBool_FromLong(hurray_device_name(value_of(self).tag) == NULL);
}

/* 'cuda', or 0xF1: what the constructor takes, either way. */
static PyObject *named_byte_repr(const NamedByte *kind, uint8_t byte) {
    const char *name = kind->name(byte);
    char text[8];
    return name == NULL ? PyUnicode_FromString(hex_byte(byte, text))
                        : PyUnicode_FromFormat("'%s'", name);
}

static PyObject *device_repr(PyObject *self) {
    HurrayDevice device = value_of(self);
    PyObject *result = NULL;
    PyObject *kind = named_byte_repr(&kind_byte, device.tag);
    PyObject *memory_class = named_byte_repr(&class_byte, device.memory_class);
    if (kind != NULL && memory_class != NULL) {
        result = PyUnicode_FromFormat("hurray.Device(kind=%U, device_id=%d, memory_class=%U)", kind,
                                      (int)device.device_id, memory_class);
    }
    Py_XDECREF(kind);
    Py_XDECREF(memory_class);
    return result;
}

static uint64_t packed(HurrayDevice device) {
    return (uint64_t)device.tag | (uint64_t)device.memory_class << 8 |
           (uint64_t)(uint32_t)device.device_id << 16;
}

static PyObject *device_richcompare(PyObject *self, PyObject *other, int operation) {
    bool comparable = Py_IS_TYPE(other, Py_TYPE(self));
    if (!comparable || (operation != Py_EQ && operation != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
    bool equal = packed(value_of(self)) == packed(value_of(other));
    return PyBool_FromLong(equal == (operation == Py_EQ));
}

static Py_hash_t device_hash(PyObject *self) {
    /* Multiplying by 2^64 / golden ratio spreads the few bits that differ between devices. */
    uint64_t mixed = packed(value_of(self)) * UINT64_C(0x9E3779B97F4A7C15);
    Py_hash_t hash = (Py_hash_t)(mixed >> 1);
    return hash == -1 ? -2 : hash;
}

static PyObject *device_reduce(PyObject *self, PyObject *ignored) {
    (void)ignored;
    HurrayDevice device = value_of(self);
    return Py_BuildValue("O(iii)", Py_TYPE(self), device.tag, (int)device.device_id,
                         device.memory_class);
}

static PyObject *device_copy(PyObject *self, PyObject *ignored) {
    (void)ignored;
    return Py_NewRef(self);
}

static int device_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static void device_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    type->tp_free(self);
    Py_DECREF(type);
}

/* ---- the type ---- */

static PyMethodDef device_methods[] = {
    {"__reduce__", device_reduce, METH_NOARGS, NULL},
    {"__copy__", device_copy, METH_NOARGS, NULL},
    {"__deepcopy__", device_copy, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef device_getset[] = {
    {"kind", get_kind, NULL, "str: 'cpu', 'cuda', …; 'private' for a vendor's device.", NULL},
    {"device_id", get_device_id, NULL,
     "int: which of the devices of this kind; not part of a descriptor.", NULL},
    {"memory_class", get_memory_class, NULL,
     "str: 'standard', 'host_pinned', 'unified', 'peer', or 'private'.", NULL},
    {"tag", get_tag, NULL, "int: the byte that stands for the kind.", NULL},
    {"memory_class_tag", get_memory_class_tag, NULL,
     "int: the byte that stands for the memory class.", NULL},
    {"is_private", get_is_private, NULL, "bool: a vendor's device, tag 0xF0 to 0xFE.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyDoc_STRVAR(device_doc,
             "Device(kind, device_id=0, memory_class='standard')\n--\n\n"
             "A place for bytes (spec 1.6, 8.2); compared and hashed by value.\n\n"
             "kind: 'cpu', 'cuda', 'rocm', 'metal', 'vulkan', 'webgpu', 'hexagon', 'level_zero',\n"
             "'opencl', or a wire byte; 0xF0 to 0xFE are private devices.\n"
             "device_id: which device of that kind.\n"
             "memory_class: 'standard', 'host_pinned', 'unified', 'peer', or a wire byte.\n\n"
             "Any pair can be held and compared; a tensor accepts those that exist. Anything else\n"
             "as kind or memory_class is an InvalidDescriptorError."
             "\n\n"
             ">>> hurray.Device('cuda', 1)\n"
             "hurray.Device(kind='cuda', device_id=1, memory_class='standard')\n"
             ">>> hurray.device.cpu == hurray.Device('cpu')\n"
             "True");

static PyType_Slot device_slots[] = {
    {Py_tp_doc, (char *)device_doc},
    {Py_tp_new, device_tp_new},
    {Py_tp_repr, device_repr},
    {Py_tp_hash, device_hash},
    {Py_tp_richcompare, device_richcompare},
    {Py_tp_methods, device_methods},
    {Py_tp_getset, device_getset},
    {Py_tp_traverse, device_traverse},
    {Py_tp_dealloc, device_dealloc},
    {0, NULL},
};

static PyType_Spec device_spec = {
    .name = "hurray.Device",
    .basicsize = sizeof(DeviceObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = device_slots,
};

int device_setup(PyObject *module, CoreState *state) {
    state->DeviceType = core_add_type(module, &device_spec, NULL);
    if (state->DeviceType == NULL) return -1;
    state->cpu = device_new(state, (HurrayDevice){.tag = HURRAY_DEVICE_CPU});
    return state->cpu == NULL ? -1 : 0;
}
