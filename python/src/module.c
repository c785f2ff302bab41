/* The module hurray._core: its state, and the setup of every concept in order. */
#include "core.h"

static int (*const setups[])(PyObject *, CoreState *) = {
    errors_setup,        dtype_setup,         device_setup,      layout_setup,      scheme_setup,
    sections_setup,      descriptor_setup,    tensor_setup,      dlpack_setup,      construct_setup,
    numpy_setup,         capsule_setup,       pickle_setup,      composite_setup,   sparse_setup,
    stream_writer_setup, stream_reader_setup, file_writer_setup, file_reader_setup,
};

PyTypeObject *core_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject *base) {
    PyTypeObject *type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, (PyObject *)base);
    if (type == NULL) return NULL;
    if (PyModule_AddType(module, type) < 0) {
        Py_DECREF(type);
        return NULL;
    }
    return type;
}

PyObject *core_loaded_module(const char *name) {
    PyObject *key = PyUnicode_FromString(name);
    PyObject *module = key == NULL ? NULL : PyImport_GetModule(key);
    Py_XDECREF(key);
    if (module == NULL) PyErr_Clear();
    return module;
}

PyObject *core_call_glue(const char *module, const char *function, PyObject *argument) {
    PyObject *glue = PyImport_ImportModule(module);
    /* Interned, as the module has it: Python's cache of attributes keeps each name that it has not seen. */
    PyObject *name = glue == NULL ? NULL : PyUnicode_InternFromString(function);
    PyObject *result = name == NULL ? NULL : PyObject_CallMethodOneArg(glue, name, argument);
    Py_XDECREF(name);
    Py_XDECREF(glue);
    return result;
}

CoreState *core_state_find(void) {
    PyObject *name = PyUnicode_FromString("hurray._core");
    if (name == NULL) return NULL;
    PyObject *module = PyImport_GetModule(name);
    Py_DECREF(name);
    if (module == NULL) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_RuntimeError, "hurray is not imported in this interpreter");
        }
        return NULL;
    }
    CoreState *state = core_state_of_module(module);
    Py_DECREF(module); /* sys.modules keeps it */
    return state;
}

static int intern_names(CoreState *state) {
#define X(name) \
    if ((state->names.name = PyUnicode_InternFromString(#name)) == NULL) return -1;
    CORE_NAMES(X)
#undef X
    return 0;
}

static int execute(PyObject *module) {
    CoreState *state = core_state_of_module(module);
    if (intern_names(state) < 0) return -1;
    for (size_t i = 0; i < Py_ARRAY_LENGTH(setups); i++) {
        if (setups[i](module, state) < 0) return -1;
    }
    if (PyModule_AddStringConstant(module, "__version__", HURRAY_VERSION) < 0) return -1;
    return PyModule_AddIntConstant(module, "MIN_BUFFER_ALIGNMENT", HURRAY_MIN_BUFFER_ALIGNMENT) <
                       0 ||
                   PyModule_AddIntConstant(module, "PAGE_ALIGNMENT", HURRAY_PAGE_ALIGNMENT) < 0
               ? -1
               : 0;
}

/* Every reference the state holds, once, for traverse and clear alike. */
#define STATE_REFERENCES(X)   \
    X(InvalidDescriptorError) \
    X(BufferError)            \
    X(CopyRequiredError)      \
    X(UnsupportedError)       \
    X(FileError)              \
    X(StreamError)            \
    X(InternalError)          \
    X(ExportRefused)          \
    X(MissingName)            \
    X(DtypeType)              \
    X(DeviceType)             \
    X(cpu)                    \
    X(LayoutType)             \
    X(StatisticsType)         \
    X(ShardType)              \
    X(ExtensionTypeType)      \
    X(DescriptorType)         \
    X(BufferHandleType)       \
    X(TensorType)             \
    X(AlignedAllocatorType)   \
    X(exchange_api)           \
    X(dlpack_max_version)     \
    X(dlpack_cpu)             \
    X(restore_tensor)         \
    X(StreamWriterType)       \
    X(StreamReaderType)       \
    X(CompositeType)          \
    X(restore_composite)

static int traverse(PyObject *module, visitproc visit, void *arg) {
    CoreState *state = core_state_of_module(module);
    if (state == NULL) return 0;
#define X(field) Py_VISIT(state->field);
    STATE_REFERENCES(X)
#undef X
    for (size_t i = 0; i < CORE_LAYOUT_CLASSES; i++) Py_VISIT(state->layout_types[i]);
    for (size_t i = 0; i < CORE_SCHEME_CLASSES; i++) Py_VISIT(state->scheme_types[i]);
    for (size_t tag = 0; tag < 256; tag++) {
        Py_VISIT(state->dtypes[tag]);
        Py_VISIT(state->ml_dtypes[tag]);
    }
    return 0;
}

static int clear(PyObject *module) {
    CoreState *state = core_state_of_module(module);
    if (state == NULL) return 0;
#define X(field) Py_CLEAR(state->field);
    STATE_REFERENCES(X)
#undef X
    for (size_t i = 0; i < CORE_LAYOUT_CLASSES; i++) Py_CLEAR(state->layout_types[i]);
    for (size_t i = 0; i < CORE_SCHEME_CLASSES; i++) Py_CLEAR(state->scheme_types[i]);
    for (size_t tag = 0; tag < 256; tag++) {
        Py_CLEAR(state->dtypes[tag]);
        Py_CLEAR(state->ml_dtypes[tag]);
    }
#define X(name) Py_CLEAR(state->names.name);
    CORE_NAMES(X)
#undef X
    return 0;
}

static void release(void *module) { clear((PyObject *)module); }

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

struct PyModuleDef core_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "hurray._core",
    .m_doc = "The C side of hurray; import hurray instead.",
    .m_size = sizeof(CoreState),
    .m_slots = slots,
    .m_traverse = traverse,
    .m_clear = clear,
    .m_free = release,
};

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&core_module); }
